package main

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	servervalidation "k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"
)

// admission does to an object what the API server does before it stores one, with
// the API server's own code.
type admission struct {
	structural *structuralschema.Structural
	schema     servervalidation.SchemaValidator
	rules      *cel.Validator
}

func internal(t *testing.T) *apiextensions.CustomResourceDefinition {
	t.Helper()
	d := definition(t).DeepCopy()
	apiextensionsv1.SetDefaults_CustomResourceDefinition(d)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&d.Spec)
	d.Status.StoredVersions = []string{"v1"}
	var out apiextensions.CustomResourceDefinition
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(d, &out, nil); err != nil {
		t.Fatal(err)
	}
	return &out
}

func newAdmission(t *testing.T) *admission {
	t.Helper()
	props := internal(t).Spec.Validation
	structural, err := structuralschema.NewStructural(props.OpenAPIV3Schema)
	if err != nil {
		t.Fatal(err)
	}
	schema, _, err := servervalidation.NewSchemaValidator(props.OpenAPIV3Schema)
	if err != nil {
		t.Fatal(err)
	}
	return &admission{structural: structural, schema: schema, rules: cel.NewValidator(structural, true, celconfig.PerCallLimit)}
}

// admit returns what is wrong with object, and the fields that would be dropped
// because the schema does not have them. old is nil for a new object.
func (a *admission) admit(object, old map[string]any) (wrong field.ErrorList, unknown []string) {
	unknown = pruning.PruneWithOptions(object, a.structural, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	defaulting.PruneNonNullableNullsWithoutDefaults(object, a.structural)
	defaulting.Default(object, a.structural)
	wrong = servervalidation.ValidateCustomResource(nil, object, a.schema)
	wrong = append(wrong, listtype.ValidateListSetsAndMaps(nil, a.structural, object)...)
	if len(wrong) > 0 {
		return wrong, unknown
	}
	var oldObject any
	if old != nil {
		oldObject = old
	}
	wrong, _ = a.rules.Validate(context.Background(), nil, a.structural, object, oldObject, celconfig.RuntimeCELCostBudget)
	return wrong, unknown
}

// The checks of the API server on a definition itself: structural schema, list
// types, rules that compile and stay within the cost budget.
func TestDefinitionIsAccepted(t *testing.T) {
	for _, err := range validation.ValidateCustomResourceDefinition(context.Background(), internal(t)) {
		t.Errorf("want a definition that the API server accepts, got %v", err)
	}
}

// release is a GreyRelease called name with the fields of spec, YAML, added to
// what it must have.
func release(t *testing.T, name, spec string) map[string]any {
	t.Helper()
	fields := map[string]any{}
	if err := yaml.Unmarshal([]byte("targetVersion: '1.0'\ntemplate: {spec: {containers: [{name: web, image: nginx}]}}"), &fields); err != nil {
		t.Fatal(err)
	}
	more := map[string]any{}
	if err := yaml.Unmarshal([]byte(spec), &more); err != nil {
		t.Fatalf("cannot read %s: %v", spec, err)
	}
	maps.Copy(fields, more)
	return map[string]any{
		"apiVersion": "greyrelease.example.com/v1",
		"kind":       "GreyRelease",
		"metadata":   map[string]any{"name": name, "namespace": "default"},
		"spec":       numbers(fields),
	}
}

// numbers turns whole float64, as YAML gives them, into the int64 of an API
// server's objects.
func numbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key := range v {
			v[key] = numbers(v[key])
		}
	case []any:
		for i := range v {
			v[i] = numbers(v[i])
		}
	case float64:
		if v == float64(int64(v)) {
			return int64(v)
		}
	}
	return v
}

func texts(errs field.ErrorList) string {
	lines := make([]string, len(errs))
	for i, err := range errs {
		lines[i] = err.Error()
	}
	return strings.Join(lines, "\n")
}

func TestRules(t *testing.T) {
	a := newAdmission(t)
	const (
		name      = `metadata.name must be at most 52 lower case letters, digits and "-", beginning with a letter and ending with a letter or digit`
		bothZero  = "cannot be 0 while maxUnavailable is 0: no pod could ever be replaced; set one of them to 1 or more"
		deadline  = "must be greater than minReadySeconds: no pod could become available in time"
		ascending = "sizes include all earlier batches, so each must be greater than the one before"
		timeout   = "has an effect only with approval: true: set that as well or remove this"
	)
	for _, tt := range []struct{ why, name, spec, want string }{
		{"nothing but what it must have", "web", ``, ``},
		{"everything", "web", `{appName: shop, replicas: 0, strategy: Canary, batchSize: 1, canaryWeight: 100, soakSeconds: 0, paused: true, maxSurge: 0, maxUnavailable: "100%", minReadySeconds: 900, progressDeadlineSeconds: 901, autoRollback: false, rollbackTo: 1, revisionHistoryLimit: 0, scaleDownDelaySeconds: 0, batches: [{replicas: 1, weight: 0, approval: true, approvalTimeoutSeconds: 1, soakSeconds: 0}]}`, ``},

		{"a name of 52, NM-01", strings.Repeat("a", 52), ``, ``},
		{"a name of 53, NM-01", strings.Repeat("a", 53), ``, name},
		{"a name of 253, NM-01", strings.Repeat("a", 253), ``, name},
		{"a dot in the name, NM-04", "my.app", ``, name},
		{"a digit in front, NM-04", "1web", ``, name},
		{"a hyphen at the end, NM-02", "web-", ``, name},

		{"a version that is a number, IV-02", "web", `targetVersion: 1.10`, `must be of type string`},
		{"a version with a blank", "web", `targetVersion: "1.0 "`, `should match`},
		{"a digest", "web", `targetVersion: "sha256:` + strings.Repeat("0a", 32) + `"`, ``},

		{"replicas as text, IV-12", "web", `replicas: "5"`, `must be of type integer`},
		{"a fraction, IV-12", "web", `replicas: 2.7`, `must be of type int32`},
		{"more than 32 bits, IV-12", "web", `replicas: 2147483648`, `must be of type integer with format int32 in spec.replicas`},
		{"negative", "web", `replicas: -1`, `greater than or equal to 0`},
		{"null is absent", "web", `{replicas: null, batches: null, strategy: null}`, ``},

		{"both zero", "web", `{maxSurge: 0, maxUnavailable: 0}`, bothZero},
		{"both zero by default", "web", `{maxSurge: 0}`, bothZero},
		{"both zero percent", "web", `{maxSurge: "0%", maxUnavailable: "0%"}`, bothZero},
		{"one zero", "web", `{maxSurge: 0, maxUnavailable: 1}`, ``},
		{"the other zero", "web", `{maxSurge: 1, maxUnavailable: "0%"}`, ``},
		{"both round to zero", "web", `{replicas: 3, maxSurge: 0, maxUnavailable: "25%"}`, ``},

		{"negative surge", "web", `{maxSurge: -1}`, `greater than or equal to 0`},
		{"a deadline too short", "web", `{minReadySeconds: 60, progressDeadlineSeconds: 60}`, deadline},
		{"the default deadline too short", "web", `{minReadySeconds: 600}`, deadline},
		{"a deadline of zero, IV-10", "web", `{progressDeadlineSeconds: 0}`, `greater than or equal to 1`},

		{"batches that grow", "web", `batches: [{replicas: 1}, {replicas: 9}, {replicas: 10}, {replicas: "9%"}, {replicas: "10%"}, {replicas: "100%"}]`, ``},
		{"types mixed are not compared", "web", `batches: [{replicas: 5}, {replicas: "10%"}, {replicas: 3}, {replicas: "5%"}]`, ``},
		{"pods that do not grow", "web", `batches: [{replicas: 5}, {replicas: 5}]`, ascending},
		{"pods that shrink", "web", `batches: [{replicas: "5%"}, {replicas: 10}, {replicas: 9}]`, ascending},
		{"percentages that do not grow", "web", `batches: [{replicas: "50%"}, {replicas: "50%"}]`, ascending},
		{"percentages that shrink", "web", `batches: [{replicas: "10%"}, {replicas: "9%"}]`, ascending},
		{"the last two of 50", "web", `batches: [` + strings.Repeat(`{replicas: 1}, {replicas: "1%"}, `, 24) + `{replicas: 2}, {replicas: 1}]`, ascending},
		{"50 batches", "web", `batches: [` + strings.Repeat(`{replicas: 1}, {replicas: "1%"}, `, 25) + `]`, ``},
		{"51 batches", "web", `batches: [` + strings.Repeat(`{replicas: 1}, {replicas: "1%"}, `, 25) + `{replicas: 2}]`, `Too many: 51`},
		{"a batch of nothing", "web", `batches: [{replicas: 0}]`, `greater than or equal to 1`},
		{"a batch of 0%", "web", `batches: [{replicas: "0%"}]`, `should match`},
		{"a batch without size", "web", `batches: [{weight: 1}]`, `spec.batches[0].replicas: Required value`},
		{"a timeout without approval", "web", `batches: [{replicas: 1, approvalTimeoutSeconds: 1}]`, timeout},
		{"a timeout with approval false", "web", `batches: [{replicas: 1, approval: false, approvalTimeoutSeconds: 1}]`, timeout},
		{"an unknown strategy", "web", `strategy: Recreate`, `supported values: "Canary", "BlueGreen"`},
		{"ports alone", "web", `traffic: {ports: [{port: 80}]}`, ``},
		{"traffic with everything", "web", `{scaleDownDelaySeconds: 5, traffic: {serviceName: shop, stableScaleDown: WithBatches, ports: [{name: http, port: 80, targetPort: web, protocol: TCP, appProtocol: http}, {name: dns, port: 53, targetPort: 5353, protocol: UDP}], httpRoute: {parentRefs: [{name: gw, namespace: infra, sectionName: https, port: 443}], hostnames: [a.example.com], path: /shop, headers: {X-A: b}, sticky: {cookieName: v}}}}`, ``},
		{"Ingresses with everything", "web", `traffic: {ports: [{port: 80}], ingress: {className: nginx, host: a.example.com, path: /, tls: {secretName: cert}, headers: {X-A: b}}}`, ``},
		{"analysis with everything", "web", `analysis: {metrics: [{name: errors, query: "up", min: -1.5, max: 0.05, intervalSeconds: 1, initialDelaySeconds: 0, failureLimit: 0, inconclusiveLimit: 0}, {name: b, query: "up", min: 1}]}`, ``},
		{"analysis without metrics", "web", `analysis: {}`, `spec.analysis.metrics: Required value`},
		{"analysis with an empty list", "web", `analysis: {metrics: []}`, `should have at least 1 items`},
		{"a metric without a limit", "web", `analysis: {metrics: [{name: a, query: up}]}`, `spec.analysis.metrics[0].name: Invalid value: says nothing without a limit: set min, max or both`},
		{"a metric that nothing passes", "web", `analysis: {metrics: [{name: a, query: up, min: 2, max: 1.5}]}`, `spec.analysis.metrics[0].min: Invalid value: must be at most max: no value could pass`},
		{"a metric with one limit twice", "web", `analysis: {metrics: [{name: a, query: up, min: 2, max: 2.0}]}`, ``},
		{"two metrics of one name", "web", `analysis: {metrics: [{name: a, query: up, min: 2}, {name: a, query: up, min: 2}]}`, `spec.analysis.metrics[1]: Duplicate value`},
		{"a limit in quotes", "web", `analysis: {metrics: [{name: a, query: up, min: "2"}]}`, `must be of type number`},
		{"an interval of none", "web", `analysis: {metrics: [{name: a, query: up, min: 2, intervalSeconds: 0}]}`, `should be greater than or equal to 1`},
		{"a metric in capitals", "web", `analysis: {metrics: [{name: A, query: up, min: 2}]}`, `should match`},
		{"traffic without ports", "web", `traffic: {}`, `spec.traffic.ports: Required value`},
		{"traffic with an empty list", "web", `traffic: {ports: []}`, `should have at least 1 items`},
		{"both routers", "web", `traffic: {ports: [{port: 80}], ingress: {}, httpRoute: {parentRefs: [{name: gw}]}}`, `spec.traffic.ingress: Invalid value: cannot be combined with httpRoute: only one router can split the requests, remove one of the two`},
		{"a route to UDP", "web", `traffic: {ports: [{port: 53, protocol: UDP}], ingress: {}}`, `the first port is the one that the route leads to, so its protocol must be TCP`},
		{"UDP without a route", "web", `traffic: {ports: [{port: 53, protocol: UDP}]}`, ``},
		{"two headers for ingress-nginx", "web", `traffic: {ports: [{port: 80}], ingress: {headers: {a: b, c: d}}}`, `must have at most 1 item`},
		{"BlueGreen without ports", "web", `strategy: BlueGreen`, `BlueGreen switches a Service from one version to the other: set traffic.ports`},
		{"BlueGreen", "web", `{strategy: BlueGreen, scaleDownDelaySeconds: 5, batches: [{replicas: "100%", approval: true}], traffic: {ports: [{port: 80}], stableScaleDown: OnPromotion}}`, ``},
		{"BlueGreen with two batches", "web", `{strategy: BlueGreen, batches: [{replicas: 1}, {replicas: 2}], traffic: {ports: [{port: 80}]}}`, `BlueGreen has one batch, all pods: keep at most one, for its approval and soak`},
		{"BlueGreen with batches", "web", `{strategy: BlueGreen, traffic: {ports: [{port: 80}], stableScaleDown: WithBatches}}`, `has an effect only for a Canary with httpRoute or ingress: remove it`},
		{"stableScaleDown without a router", "web", `traffic: {ports: [{port: 80}], stableScaleDown: OnPromotion}`, `has an effect only for a Canary with httpRoute or ingress: remove it`},
		{"a delay without a router", "web", `{scaleDownDelaySeconds: 1, traffic: {ports: [{port: 80}]}}`, `must be 0 without a router or BlueGreen: the pods of the previous version would still be reached`},
		{"no containers", "web", `template: {spec: {}}`, `spec.template.spec.containers: Required value`},
		{"a quantity, IV-05", "web", `template: {spec: {containers: [{name: a, image: a, resources: {limits: {cpu: abc}}}]}}`, `spec.template.spec.containers[0].resources.limits.cpu`},
		{"an annotation that YAML made a boolean", "web", `template: {metadata: {annotations: {inject: true}}, spec: {containers: [{name: a, image: a}]}}`, `spec.template.metadata.annotations.inject in body must be of type string`},
		{"ports that differ in protocol only", "web", `template: {spec: {containers: [{name: a, image: a, ports: [{containerPort: 53, protocol: UDP}, {containerPort: 53, protocol: TCP}]}]}}`, ``},
	} {
		wrong, unknown := a.admit(release(t, tt.name, tt.spec), nil)
		switch got := texts(wrong); {
		case tt.want == "" && got != "":
			t.Errorf("%s: want it accepted, got %s", tt.why, got)
		case !strings.Contains(got, tt.want):
			t.Errorf("%s: want an error with %q, got %q", tt.why, tt.want, got)
		}
		if len(unknown) > 0 {
			t.Errorf("%s: want every field known, got %v unknown", tt.why, unknown)
		}
	}
}

// IV-07: the same percentages are refused by the schema and by the hook.
func TestIV07_Percentages(t *testing.T) {
	a := newAdmission(t)
	for _, spec := range []string{`maxSurge: %`, `maxUnavailable: %`, `batches: [{replicas: %}]`} {
		for _, value := range []string{`"25"`, `"-10%"`, `"12.5%"`, `"150%"`, `""`, `" 10%"`, `"10 %"`, `"abc%"`, `"05%"`, `-1`, `1.5`} {
			if wrong, _ := a.admit(release(t, "web", strings.Replace(spec, "%", value, 1)), nil); len(wrong) == 0 {
				t.Errorf("%s with %s: want it refused, got no error", spec, value)
			}
		}
		for _, value := range []string{`"25%"`, `"1%"`, `"100%"`, `1`, `150`} {
			if wrong, _ := a.admit(release(t, "web", strings.Replace(spec, "%", value, 1)), nil); len(wrong) > 0 {
				t.Errorf("%s with %s: want it accepted, got %s", spec, value, texts(wrong))
			}
		}
	}
}

func TestAppNameIsImmutable(t *testing.T) {
	a := newAdmission(t)
	for _, tt := range []struct{ why, from, to, want string }{
		{"kept", `appName: shop`, `appName: shop`, ``},
		{"kept absent", ``, `replicas: 3`, ``},
		{"changed", `appName: shop`, `appName: web`, `spec.appName: Invalid value: `},
		{"added", ``, `appName: web`, `spec.appName: Invalid value: `},
		{"removed", `appName: web`, ``, `spec.appName: Invalid value: `},
	} {
		wrong, _ := a.admit(release(t, "web", tt.to), release(t, "web", tt.from))
		if got := texts(wrong); (tt.want == "") != (got == "") || !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: want %q, got %q", tt.why, tt.want, got)
		}
	}
}

// No rule may depend on replicas: an autoscaler that was refused would stop.
func TestAutoscalerIsNeverRefused(t *testing.T) {
	a := newAdmission(t)
	for _, spec := range []string{
		`{maxSurge: 0, maxUnavailable: "1%"}`,
		`{batchSize: 50, canaryWeight: 1}`,
		`batches: [{replicas: 20}, {replicas: "10%"}, {replicas: 30}, {replicas: "50%"}]`,
	} {
		for _, replicas := range []int64{0, 1, 7, 100, 2147483647} {
			old, scaled := release(t, "web", spec), release(t, "web", spec)
			old["spec"].(map[string]any)["replicas"] = int64(10)
			scaled["spec"].(map[string]any)["replicas"] = replicas
			if wrong, _ := a.admit(scaled, old); len(wrong) > 0 {
				t.Errorf("%s scaled to %d: want it accepted, got %s", spec, replicas, texts(wrong))
			}
		}
	}
}

// IV-11: nothing of a pod template is lost on the way through the API server.
func TestIV11_TemplateIsKept(t *testing.T) {
	a := newAdmission(t)
	object := release(t, "web", `
template:
  metadata:
    labels: {app: web, a.b/c: ""}
    annotations: {Team/Owner: "Ops <x>"}
  spec:
    containers:
    - name: web
      image: nginx
      ports: [{containerPort: 53, protocol: UDP}, {containerPort: 53}]
      env: [{name: A, value: ""}, {name: B, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: 1m}}}]
      resources: {limits: {cpu: "0.5", memory: 1Gi, nvidia.com/gpu: 1}}
      livenessProbe: {httpGet: {port: http, path: /}}
      readinessProbe: {tcpSocket: {port: 8080}}
      lifecycle: {preStop: {sleep: {seconds: 5}}}
      volumeMounts: [{name: scratch, mountPath: /scratch}]
    volumes:
    - {name: empty, emptyDir: {}}
    - name: scratch
      ephemeral: {volumeClaimTemplate: {metadata: {labels: {x: z}}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}}
    - {name: all, projected: {sources: [{downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}}, {serviceAccountToken: {path: token}}]}}
    tolerations: [{operator: Exists}]
    topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web}}}]
`)
	want, err := yaml.Marshal(object["spec"].(map[string]any)["template"])
	if err != nil {
		t.Fatal(err)
	}
	wrong, unknown := a.admit(object, nil)
	if len(wrong) > 0 || len(unknown) > 0 {
		t.Errorf("want it accepted whole, got %s, unknown %v", texts(wrong), unknown)
	}
	got, err := yaml.Marshal(object["spec"].(map[string]any)["template"])
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != string(got) {
		t.Errorf("want\n%s\ngot\n%s", want, got)
	}
}

// The examples would be accepted, with no field that the API server drops.
func TestExamples(t *testing.T) {
	a := newAdmission(t)
	files, err := filepath.Glob(root + "/examples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("want examples, got %v %v", files, err)
	}
	found := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, document := range strings.Split(string(text), "\n---\n") {
			object := map[string]any{}
			if err := yaml.Unmarshal([]byte(document), &object); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if object["kind"] != "GreyRelease" {
				continue
			}
			found++
			if wrong, unknown := a.admit(numbers(object).(map[string]any), nil); len(wrong) > 0 || len(unknown) > 0 {
				t.Errorf("%s: want it accepted whole, got %s, unknown %v", file, texts(wrong), unknown)
			}
		}
	}
	if found == 0 {
		t.Error("want a GreyRelease among the examples, got none")
	}
}
