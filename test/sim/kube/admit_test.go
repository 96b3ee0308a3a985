package kube

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	utiljson "k8s.io/apimachinery/pkg/util/json"
)

func decode(t *testing.T, text string) map[string]any {
	t.Helper()
	var tree map[string]any
	if err := utiljson.Unmarshal([]byte(text), &tree); err != nil {
		t.Fatal(err)
	}
	return tree
}

func deployment(t *testing.T, spec, pod string) map[string]any {
	t.Helper()
	return decode(t, `{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "default", "annotations": {}, "creationTimestamp": null},
		"spec": {`+spec+`"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": `+pod+`}}, "status": {"replicas": 3}}`)
}

// The expected trees were made by Kubernetes 1.36 itself out of the same input.
func TestAdmitDeployment(t *testing.T) {
	for _, c := range []struct{ why, spec, pod, want string }{{
		"defaults of everything, zeros and nulls dropped, status kept",
		`"minReadySeconds": 0, "paused": false, `,
		`{"containers": [{"name": "a", "image": "nginx", "args": [], "command": null, "env": [{"name": "A", "value": ""}]}]}`,
		`{"progressDeadlineSeconds": 600, "replicas": 1, "revisionHistoryLimit": 10, "selector": {"matchLabels": {"a": "b"}},
		"strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}, "type": "RollingUpdate"},
		"template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"env": [{"name": "A"}], "image": "nginx", "imagePullPolicy": "Always",
		"name": "a", "resources": {}, "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}],
		"dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "default-scheduler", "securityContext": {}, "terminationGracePeriodSeconds": 30}}}`,
	}, {
		"quantities in the server's spelling, defaults inside lists",
		`"replicas": 0, "strategy": {"type": "Recreate"}, `,
		`{"serviceAccountName": "sa", "terminationGracePeriodSeconds": 0, "containers": [{"name": "a", "image": "r:5000/x:1", "ports": [{"containerPort": 53}],
		"resources": {"limits": {"cpu": "0.5", "memory": "1024Mi"}, "requests": {"cpu": "0.0001"}},
		"livenessProbe": {"httpGet": {"port": 80}}, "env": [{"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]}],
		"volumes": [{"name": "n"}, {"name": "p", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]}`,
		`{"progressDeadlineSeconds": 600, "replicas": 0, "revisionHistoryLimit": 10, "selector": {"matchLabels": {"a": "b"}}, "strategy": {"type": "Recreate"},
		"template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"env": [{"name": "B", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}],
		"image": "r:5000/x:1", "imagePullPolicy": "IfNotPresent", "livenessProbe": {"failureThreshold": 3, "httpGet": {"path": "/", "port": 80, "scheme": "HTTP"},
		"periodSeconds": 10, "successThreshold": 1, "timeoutSeconds": 1}, "name": "a", "ports": [{"containerPort": 53, "protocol": "TCP"}],
		"resources": {"limits": {"cpu": "500m", "memory": "1Gi"}, "requests": {"cpu": "1m"}}, "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}],
		"dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "default-scheduler", "securityContext": {}, "serviceAccount": "sa", "serviceAccountName": "sa",
		"terminationGracePeriodSeconds": 0, "volumes": [{"emptyDir": {}, "name": "n"},
		{"name": "p", "projected": {"defaultMode": 420, "sources": [{"serviceAccountToken": {"expirationSeconds": 3600, "path": "t"}}]}}]}}}`,
	}} {
		t.Run(c.why, func(t *testing.T) {
			in := deployment(t, c.spec, c.pod)
			before, err := json.Marshal(in)
			if err != nil {
				t.Fatal(err)
			}
			got, err := Admit("Deployment", nil, in)
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]any{
				"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "d", "namespace": "default"},
				"spec": decode(t, c.want), "status": map[string]any{"replicas": int64(3)},
			}
			if !reflect.DeepEqual(want, got) {
				w, _ := json.Marshal(want)
				g, _ := json.Marshal(got)
				t.Errorf("want %s\ngot  %s", w, g)
			}
			again, err := Admit("Deployment", got, got)
			if err != nil || !reflect.DeepEqual(got, again) {
				t.Errorf("want the stored form kept, got %v %v", again, err)
			}
			if after, _ := json.Marshal(in); string(before) != string(after) {
				t.Errorf("want the argument left alone, got %s", after)
			}
		})
	}
}

func TestRefusedDeployments(t *testing.T) {
	const pod = `{"containers": [{"name": "a", "image": "i:1"}]}`
	for _, c := range []struct{ why, spec, pod, want string }{
		{"deadline", `"minReadySeconds": 600, `, pod, "spec.progressDeadlineSeconds: Invalid value: 600: must be greater than minReadySeconds"},
		{"negative replicas", `"replicas": -1, `, pod, "spec.replicas: Invalid value: -1: must be greater than or equal to 0"},
		{"nothing may move", `"strategy": {"rollingUpdate": {"maxSurge": "0%", "maxUnavailable": 0}}, `, pod, "may not be 0 when `maxSurge` is 0"},
		{"no percentage", `"strategy": {"rollingUpdate": {"maxSurge": "x"}}, `, pod, "spec.strategy.rollingUpdate.maxSurge"},
		{"no containers", "", `{"containers": []}`, "spec.template.spec.containers: Required value"},
		{"two of a name", "", `{"containers": [{"name": "a", "image": "i:1"}, {"name": "a", "image": "i:1"}]}`, "spec.template.spec.containers[1].name: Duplicate value"},
		{"no image", "", `{"containers": [{"name": "a"}]}`, "spec.template.spec.containers[0].image: Required value"},
		{"a mount without its volume", "", `{"containers": [{"name": "a", "image": "i:1", "volumeMounts": [{"name": "v", "mountPath": "/"}]}]}`, "volumeMounts[0].name: Not found"},
		{"two mounts at one path", "", `{"containers": [{"name": "a", "image": "i:1", "volumeMounts": [{"name": "v", "mountPath": "/"}, {"name": "v", "mountPath": "/"}]}], "volumes": [{"name": "v"}]}`, "must be unique"},
		{"jobs are no Deployments", "", `{"restartPolicy": "Never", "containers": [{"name": "a", "image": "i:1"}]}`, "spec.template.spec.restartPolicy"},
	} {
		t.Run(c.why, func(t *testing.T) {
			_, err := Admit("Deployment", nil, deployment(t, c.spec, c.pod))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("want %s\ngot  %v", c.want, err)
			}
		})
	}
	old, err := Admit("Deployment", nil, deployment(t, "", pod))
	if err != nil {
		t.Fatal(err)
	}
	next := deployment(t, "", strings.Replace(pod, "i:1", "i:2", 1))
	next["spec"].(map[string]any)["selector"] = decode(t, `{"matchLabels": {"a": "b", "c": "d"}}`)
	next["spec"].(map[string]any)["template"].(map[string]any)["metadata"] = decode(t, `{"labels": {"a": "b", "c": "d"}}`)
	if _, err := Admit("Deployment", old, next); err == nil || !strings.Contains(err.Error(), "spec.selector: Invalid value") {
		t.Errorf("want the selector immutable, got %v", err)
	}
}

func TestAdmitOthers(t *testing.T) {
	release, err := Admit("GreyRelease", nil, decode(t, `{"spec": {"targetVersion": "1"}}`))
	if err != nil || release["spec"].(map[string]any)["replicas"] != int64(1) {
		t.Errorf("want replicas 1 by default, got %v %v", release, err)
	}
	config := func(data string) map[string]any {
		return decode(t, `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "default"}, `+data+`}`)
	}
	for _, c := range []struct{ why, old, data, want string }{
		{"free", `"data": {"a": "b"}`, `"data": {"a": "c"}`, ""},
		{"immutable", `"immutable": true, "data": {"a": "b"}`, `"immutable": true, "data": {"a": "c"}`, "data: Forbidden: field is immutable"},
		{"immutable for good", `"immutable": true`, `"immutable": false`, "immutable: Forbidden: field is immutable"},
		{"immutable bytes", `"immutable": true, "binaryData": {"a": "YQ=="}`, `"immutable": true, "binaryData": {"a": "Yg=="}`, "binaryData: Forbidden"},
		{"labels of an immutable one", `"immutable": true, "data": {"a": "b"}`, `"immutable": true, "data": {"a": "b"}`, ""},
		{"keys are file names", `"data": {}`, `"data": {"a/b": ""}`, "data[a/b]"},
	} {
		t.Run(c.why, func(t *testing.T) {
			_, err := Admit("ConfigMap", config(c.old), config(c.data))
			switch {
			case c.want == "" && err != nil:
				t.Errorf("want it accepted, got %v", err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("want %s, got %v", c.want, err)
			}
		})
	}
}

func TestAdmitSecrets(t *testing.T) {
	secret := func(data string) map[string]any {
		return decode(t, `{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"}, `+data+`}`)
	}
	made, err := Admit("Secret", nil, secret(`"data": {"a": "YQ=="}, "stringData": {"b": "b"}`))
	if err != nil {
		t.Fatal(err)
	}
	if data := made["data"].(map[string]any); made["type"] != "Opaque" || made["stringData"] != nil || data["a"] != "YQ==" || data["b"] != "Yg==" {
		t.Errorf("want the type Opaque, and stringData among the data as base64, got %v", made)
	}
	for _, c := range []struct{ why, old, data, want string }{
		{"free", `"data": {"a": "YQ=="}`, `"data": {"a": "Yg=="}`, ""},
		{"a type that is left out", `"type": "example.com/t"`, `"data": {"a": "Yg=="}`, ""},
		{"a type is for ever", `"type": "Opaque"`, `"type": "example.com/t"`, "type: Invalid value"},
		{"immutable", `"immutable": true, "data": {"a": "YQ=="}`, `"immutable": true, "data": {"a": "Yg=="}`, "data: Forbidden: field is immutable"},
		{"immutable for good", `"immutable": true`, `"immutable": false`, "immutable: Forbidden: field is immutable"},
		{"keys are file names", `"data": {}`, `"data": {"a/b": ""}`, "data[a/b]"},
		{"text that is no base64", `"data": {}`, `"data": {"a": "*"}`, "cannot be handled as a Secret"},
	} {
		old, err := Admit("Secret", nil, secret(c.old))
		if err != nil {
			t.Fatal(err)
		}
		switch _, err := Admit("Secret", old, secret(c.data)); {
		case c.want == "" && err != nil:
			t.Errorf("%s: want it accepted, got %v", c.why, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: want %s, got %v", c.why, c.want, err)
		}
	}
}
