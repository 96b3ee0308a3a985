package greyrelease

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestValidateTemplate(t *testing.T) {
	const (
		web   = `"containers":[{"name":"web","image":"nginx"}]`
		label = `must be empty or a label value: 1 to 63 letters, digits, "-", "_" and ".", beginning and ending with a letter or digit`
		key   = "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
	)
	for _, tt := range []struct{ why, template, want string }{
		{"one container", `{"spec":{` + web + `}}`, ``},
		{"unknown fields are the API server's business", `{"spec":{"futureField":{},` + web + `}}`, ``},
		{"restart Always, empty lists, nulls", `{"metadata":null,"spec":{"restartPolicy":"Always","ephemeralContainers":[],"volumes":null,` + web + `}}`, ``},
		{"quantities in other spellings", `{"spec":{"containers":[{"name":"web","image":"nginx","resources":{"limits":{"cpu":0.5,"memory":"1024Mi"}}}]}}`, ``},
		{"labels and annotations, IV-11", `{"metadata":{"labels":{"app":"web","a.b/c":""},"annotations":{"Team/Owner":"Ops <x>"}},"spec":{` + web + `}}`, ``},

		{"absent", ``, `spec.template: Required value: describe the pods as in a Deployment`},
		{"null, IV-05", `null`, `spec.template: Required value: describe the pods as in a Deployment`},
		{"a list", `[]`, `spec.template: Invalid value: must be an object: describe the pods as in a Deployment`},
		{"empty", `{}`, `spec.template.spec.containers: Required value: name at least one container`},
		{"no containers, IV-05", `{"spec":{"containers":[]}}`, `spec.template.spec.containers: Required value: name at least one container`},
		{"ephemeral containers, IV-05", `{"spec":{` + web + `,"ephemeralContainers":[{"name":"debug"}]}}`,
			`spec.template.spec.ephemeralContainers: Forbidden: they can only be added to a running pod, by kubectl debug: remove them`},
		{"restart policy", `{"spec":{` + web + `,"restartPolicy":"OnFailure"}}`,
			`spec.template.spec.restartPolicy: Invalid value: "OnFailure": must be Always, as in every Deployment: remove it or say Always`},
		{"an end", `{"spec":{` + web + `,"activeDeadlineSeconds":60}}`,
			`spec.template.spec.activeDeadlineSeconds: Forbidden: a Deployment's pods have no end: remove it`},
		{"a container without name and image", `{"spec":{"containers":[{}]}}`,
			`spec.template.spec.containers[0].name: Required value: give the container a name
spec.template.spec.containers[0].image: Required value: name the image; without a tag or digest it gets targetVersion`},
		{"a container null", `{"spec":{"containers":[null]}}`,
			`spec.template.spec.containers[0].name: Required value: give the container a name
spec.template.spec.containers[0].image: Required value: name the image; without a tag or digest it gets targetVersion`},
		{"one name twice", `{"spec":{"initContainers":[{"name":"web","image":"init"}],` + web + `}}`,
			`spec.template.spec.containers[0].name: Invalid value: "web": is the name of spec.template.spec.initContainers[0] too: give one of them another name`},
		{"a capital in a name", `{"spec":{"containers":[{"name":"Web","image":"nginx"}]}}`,
			`spec.template.spec.containers[0].name: Invalid value: "Web": must be at most 63 lower case letters, digits and "-", beginning and ending with a letter or digit`},
		{"a blank in an image", `{"spec":{"containers":[{"name":"web","image":"nginx "}]}}`,
			`spec.template.spec.containers[0].image: Invalid value: "nginx ": must not begin or end with a blank`},
		{"another namespace, SE-06", `{"metadata":{"namespace":"kube-system"},"spec":{` + web + `}}`,
			`spec.template.metadata.namespace: Invalid value: "kube-system": pods run in the namespace of the release, default: remove the field`},
		{"its own namespace", `{"metadata":{"namespace":"default"},"spec":{` + web + `}}`, ``},
		{"label values and names", `{"metadata":{"labels":{"a b":"x","tier":"web-"}},"spec":{` + web + `}}`,
			`spec.template.metadata.labels[a b]: Invalid value: "a b": the name of a label: ` + key + `
spec.template.metadata.labels[tier]: Invalid value: "web-": ` + label},
		{"annotation names", `{"metadata":{"annotations":{"a b":"x"}},"spec":{` + web + `}}`,
			`spec.template.metadata.annotations[a b]: Invalid value: "a b": the name of an annotation: ` + key},

		{"a quantity, IV-05", `{"spec":{"containers":[{"name":"a","image":"a"},{"name":"b","image":"b","resources":{"limits":{"cpu":"abc"}}}]}}`,
			`spec.template.spec.containers[1].resources.limits[cpu]: Invalid value: "abc": must be a quantity, as in "500m" or "1Gi"`},
		{"an annotation that YAML made a boolean", `{"metadata":{"annotations":{"inject":true,"build":7}},"spec":{` + web + `}}`,
			`spec.template.metadata.annotations[build]: Invalid value: 7: must be a string: quote it, as in "7"
spec.template.metadata.annotations[inject]: Invalid value: true: must be a string: quote it, as in "true"`},
		{"a port in quotes", `{"spec":{"containers":[{"name":"a","image":"a","ports":[{"containerPort":"80"}]}]}}`,
			`spec.template.spec.containers[0].ports[0].containerPort: Invalid value: "80": must be a whole number, without quotes`},
		{"a probe's port", `{"spec":{"containers":[{"name":"a","image":"a","livenessProbe":{"httpGet":{"port":1.5}}}]}}`,
			`spec.template.spec.containers[0].livenessProbe.httpGet.port: Invalid value: 1.5: must be a whole number or a string`},
		{"several at once, with embedded fields", `{"spec":{"hostNetwork":"yes","volumes":[{"name":"v","emptyDir":{"sizeLimit":"big"}},{"name":"w","configMap":[]}],"containers":{"name":"a"},"nodeSelector":[]}}`,
			`spec.template.spec.volumes[0].emptyDir.sizeLimit: Invalid value: "big": must be a quantity, as in "500m" or "1Gi"
spec.template.spec.volumes[1].configMap: Invalid value: must be an object
spec.template.spec.containers: Invalid value: must be a list
spec.template.spec.nodeSelector: Invalid value: must be an object
spec.template.spec.hostNetwork: Invalid value: "yes": must be true or false, without quotes`},
		{"a creation time", `{"metadata":{"creationTimestamp":"today"},"spec":{` + web + `}}`,
			`spec.template.metadata.creationTimestamp: Invalid value: "today": must be a time, as in "2026-11-30T12:00:00Z"`},
	} {
		if got := texts(validateTemplate(json.RawMessage(tt.template), "default")); tt.want != got {
			t.Errorf("%s: want\n%s\ngot\n%s", tt.why, tt.want, got)
		}
	}
}

// A value that a user pasted by mistake does not fill the status.
func TestErrorsStayReadable(t *testing.T) {
	long := strings.Repeat("é", 5000)
	template := `{"metadata":{"labels":{"` + long + `":"` + long + `"}},"spec":{"restartPolicy":"` + long + `","containers":[{"name":"` + long + `","image":" ` + long + `"}]}}`
	for _, err := range validateTemplate(json.RawMessage(template), "default") {
		if n := len(err.Error()); n > 1000 {
			t.Errorf("want at most 1000 bytes, got %d: %.300s", n, err.Error())
		}
	}
}
