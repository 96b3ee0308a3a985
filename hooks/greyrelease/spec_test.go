package greyrelease

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"greyrelease.example.com/hooks/history"
)

// specWith is a spec that sets only what it must, with the fields of patch added
// or replaced, each as it is written there.
func specWith(t *testing.T, patch string) json.RawMessage {
	t.Helper()
	fields := map[string]json.RawMessage{
		"targetVersion": json.RawMessage(`"1.28.0"`),
		"template":      json.RawMessage(`{"spec":{"containers":[{"name":"web","image":"nginx"}]}}`),
	}
	if err := json.Unmarshal([]byte("{"+patch+"}"), &fields); err != nil {
		t.Fatalf("cannot read the patch %s: %v", patch, err)
	}
	raw, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func texts(errs field.ErrorList) string {
	lines := make([]string, len(errs))
	for i, err := range errs {
		lines[i] = err.Error()
	}
	return strings.Join(lines, "\n")
}

func number(n int64) *int64 { return &n }

// A release that sets only what it must gets the defaults that the API promises.
func TestDecodeSpecDefaults(t *testing.T) {
	want := &Spec{
		TargetVersion:           "1.28.0",
		Template:                json.RawMessage(`{"spec":{"containers":[{"name":"web","image":"nginx"}]}}`),
		MaxSurge:                quantity{Value: 25, Percent: true},
		MaxUnavailable:          quantity{},
		ProgressDeadlineSeconds: 600,
		AutoRollback:            true,
		HistoryLimit:            10,
		SnapshotKind:            history.ConfigMap,
		MaxRestarts:             3,
	}
	nulls := `"appName":null,"replicas":null,"strategy":null,"batchSize":null,"canaryWeight":null,"soakSeconds":null,
		"batches":null,"paused":null,"maxSurge":null,"maxUnavailable":null,"minReadySeconds":null,
		"progressDeadlineSeconds":null,"autoRollback":null,"rollbackTo":null,"revisionHistoryLimit":null,"snapshotKind":null,"scaleDownDelaySeconds":null,"health":null,"traffic":null`
	for why, patch := range map[string]string{
		"absent":         ``,
		"null is absent": nulls,
		"unknown fields": `"Replicas":7,"Traffic":{"ports":[]},"futureField":[1]`,
		"an empty plan":  `"batches":[]`,
		"empty health":   `"health":{"maxRestarts":null}`,
	} {
		got, errs := decodeSpec(specWith(t, patch))
		if len(errs) > 0 {
			t.Errorf("%s: want no errors, got\n%s", why, texts(errs))
		}
		got.Batches = append([]batch(nil), got.Batches...)
		if !reflect.DeepEqual(want, got) {
			t.Errorf("%s: want\n%+v, got\n%+v", why, want, got)
		}
	}
}

func TestDecodeSpecEverything(t *testing.T) {
	got, errs := decodeSpec(specWith(t, `"appName":"shop","replicas":10,"targetVersion":"v2","template":{"x": 1.50},"strategy":"Canary",
		"batchSize":2,"canaryWeight":10,"soakSeconds":30,"paused":true,"maxSurge":"50%","maxUnavailable":1,
		"batches":[{"replicas":1,"weight":0,"approval":true,"approvalTimeoutSeconds":86400},{"replicas":"20%","soakSeconds":0},{"replicas":10,"weight":100,"soakSeconds":600}],
		"minReadySeconds":5,"progressDeadlineSeconds":60,"autoRollback":false,"rollbackTo":3,"revisionHistoryLimit":0,"snapshotKind":"Secret","scaleDownDelaySeconds":0,"health":{"maxRestarts":7}`))
	if len(errs) > 0 {
		t.Fatalf("want no errors, got\n%s", texts(errs))
	}
	want := &Spec{
		AppName: "shop", Replicas: number(10), TargetVersion: "v2", Template: json.RawMessage(`{"x":1.50}`),
		BatchSize: 2, CanaryWeight: 10, SoakSeconds: 30, Paused: true,
		Batches: []batch{
			{Pods: 1, Weight: number(0), Approval: true, ApprovalTimeoutSeconds: 86400},
			{Percent: 20, SoakSeconds: number(0)},
			{Pods: 10, Weight: number(100), SoakSeconds: number(600)},
		},
		MaxSurge: quantity{Value: 50, Percent: true}, MaxUnavailable: quantity{Value: 1},
		MinReadySeconds: 5, ProgressDeadlineSeconds: 60, RollbackTo: 3, SnapshotKind: history.Secret, MaxRestarts: 7,
	}
	if !reflect.DeepEqual(want, got) {
		t.Errorf("want\n%+v, got\n%+v", want, got)
	}
}

// IV-10: a zero is honoured or refused, and never becomes the default.
func TestIV10_ZeroIsAValue(t *testing.T) {
	got, errs := decodeSpec(specWith(t, `"replicas":0,"canaryWeight":0,"soakSeconds":0,"maxSurge":1,"maxUnavailable":0,
		"minReadySeconds":0,"revisionHistoryLimit":0,"scaleDownDelaySeconds":0,"autoRollback":false,"batches":[{"replicas":1,"weight":0,"soakSeconds":0}]`))
	if len(errs) > 0 {
		t.Fatalf("want no errors, got\n%s", texts(errs))
	}
	if got.Replicas == nil || *got.Replicas != 0 || got.HistoryLimit != 0 || got.AutoRollback || got.MaxUnavailable != (quantity{}) {
		t.Errorf("want every zero kept, got %+v", got)
	}
	if b := got.Batches[0]; b.Weight == nil || *b.Weight != 0 || b.SoakSeconds == nil || *b.SoakSeconds != 0 {
		t.Errorf("want the zeros of the batch kept, got %+v", b)
	}
	for patch, want := range map[string]string{
		`"progressDeadlineSeconds":0`: `spec.progressDeadlineSeconds: Invalid value: 0: must be greater than minReadySeconds, 0: no pod could become available in time`,
		`"health":{"maxRestarts":0}`:  `spec.health.maxRestarts: Invalid value: 0: must be a whole number from 1 to 1000`,
		`"batchSize":0`:               `spec.batchSize: Invalid value: 0: must be a whole number from 1 to 2147483647`,
		`"rollbackTo":0`:              `spec.rollbackTo: Invalid value: 0: must be a whole number from 1 to 2147483647`,
		`"maxSurge":0`:                `spec.maxSurge: Invalid value: 0: cannot be 0 while maxUnavailable is 0: no pod could ever be replaced; set one of them to 1 or more`,
		`"batches":[{"replicas":0}]`:  `spec.batches[0].replicas: Invalid value: 0: must be a whole number of pods from 1 to 2147483647 or a percentage from "1%" to "100%"`,
		`"batches":[{"replicas":1,"approval":true,"approvalTimeoutSeconds":0}]`: `spec.batches[0].approvalTimeoutSeconds: Invalid value: 0: must be a whole number from 1 to 2147483647`,
	} {
		_, errs := decodeSpec(specWith(t, patch))
		if got := texts(errs); want != got {
			t.Errorf("%s: want\n%s\ngot\n%s", patch, want, got)
		}
	}
}

// Healing and scaling go on while another field is wrong, so what is right is
// returned all the same.
func TestDecodeSpecKeepsWhatIsRight(t *testing.T) {
	got, errs := decodeSpec(json.RawMessage(`{"replicas":7,"paused":true,"batches":[{"replicas":"x"},{"replicas":2}],"maxSurge":"1","targetVersion":1.1,"template":[]}`))
	want := `spec.targetVersion: Invalid value: 1.1: must be a string: quote it, as in "1.1"
spec.batches[0].replicas: Invalid value: "x": must be a whole number of pods from 1 to 2147483647 or a percentage from "1%" to "100%"
spec.maxSurge: Invalid value: "1": must be a whole number of pods from 0 to 2147483647 or a percentage from "0%" to "100%"`
	if texts(errs) != want {
		t.Errorf("want\n%s\ngot\n%s", want, texts(errs))
	}
	if got.Replicas == nil || *got.Replicas != 7 || !got.Paused || got.Batches != nil || got.MaxSurge != defaultSpec().MaxSurge {
		t.Errorf("want replicas and paused read and the wrong fields at their defaults, got %+v", got)
	}
}

// IV-12: whole numbers have several spellings; nothing else is rounded or cut.
func TestIV12_Replicas(t *testing.T) {
	const refused = "must be a whole number from 0 to 2147483647"
	for _, tt := range []struct {
		value string
		want  *int64
		wrong string
	}{
		{value: `5`, want: number(5)},
		{value: `5.0`, want: number(5)},
		{value: `5e0`, want: number(5)},
		{value: `0`, want: number(0)},
		{value: `2147483647`, want: number(2147483647)},
		{value: `null`},
		{value: `"5"`, wrong: `spec.replicas: Invalid value: "5": ` + refused + ", without quotes"},
		{value: `2.7`, wrong: `spec.replicas: Invalid value: 2.7: ` + refused},
		{value: `1e20`, wrong: `spec.replicas: Invalid value: 1e20: ` + refused},
		{value: `2147483648`, wrong: `spec.replicas: Invalid value: 2147483648: ` + refused},
		{value: `-1`, wrong: `spec.replicas: Invalid value: -1: ` + refused},
		{value: `true`, wrong: `spec.replicas: Invalid value: true: ` + refused},
		{value: `{"a":1}`, wrong: `spec.replicas: Invalid value: ` + refused},
		{value: `[5]`, wrong: `spec.replicas: Invalid value: ` + refused},
	} {
		got, errs := decodeSpec(specWith(t, `"replicas":`+tt.value))
		if texts(errs) != tt.wrong {
			t.Errorf("%s: want %q, got %q", tt.value, tt.wrong, texts(errs))
		}
		if !reflect.DeepEqual(tt.want, got.Replicas) {
			t.Errorf("%s: want %v, got %v", tt.value, tt.want, got.Replicas)
		}
	}
}

// IV-05: nothing malformed panics, and each mistake names its field and the cure.
func TestIV05_Malformed(t *testing.T) {
	const needs = "it needs targetVersion and template"
	for spec, want := range map[string]string{
		``:      `spec: Required value: ` + needs,
		`null`:  `spec: Required value: ` + needs,
		`[]`:    `spec: Invalid value: must be an object: ` + needs,
		`"web"`: `spec: Invalid value: "web": must be an object: ` + needs,
		`{`:     `spec: Invalid value: must be an object: ` + needs,
		`{}`: `spec.targetVersion: Required value: name the image tag or digest to release, as in "1.28.0"
spec.template: Required value: describe the pods as in a Deployment`,
		`{"targetVersion":null,"template":null}`: `spec.targetVersion: Required value: name the image tag or digest to release, as in "1.28.0"
spec.template: Required value: describe the pods as in a Deployment`,
	} {
		got, errs := decodeSpec(json.RawMessage(spec))
		if texts(errs) != want {
			t.Errorf("%s: want\n%s\ngot\n%s", spec, want, texts(errs))
		}
		if got == nil {
			t.Errorf("%s: want a spec in any case, got none", spec)
		}
	}
}

func FuzzDecodeSpec(f *testing.F) {
	for _, seed := range []string{
		``, `null`, `{}`, `[]`, `0`, `"x"`, `{`,
		`{"strategy":null,"batches":null}`, `{"batches":[null]}`, `{"batches":[[],{},1,"x",{"replicas":{}}]}`,
		`{"template":null}`, `{"template":{"spec":{"containers":[]}}}`,
		`{"template":{"spec":{"containers":[{"name":"a","image":"a","resources":{"limits":{"cpu":"abc"}}}]}}}`,
		`{"template":{"spec":{"ephemeralContainers":[{"name":"debug"}]}}}`,
		`{"template":{"metadata":{"labels":{"":"","a/b/c":"x"}},"spec":{"volumes":[{"name":1,"emptyDir":{"sizeLimit":[]}}]}}}`,
		`{"replicas":-1}`, `{"replicas":1e400000000}`, `{"replicas":"5","targetVersion":20161216,"maxSurge":"25","maxUnavailable":1.5}`,
		`{"appName":{},"replicas":[],"targetVersion":[],"template":[],"strategy":[],"batchSize":{},"canaryWeight":"","soakSeconds":true,"batches":{},"paused":"y","maxSurge":{},"maxUnavailable":[],"minReadySeconds":"","progressDeadlineSeconds":null,"autoRollback":0,"rollbackTo":"3","revisionHistoryLimit":1e3,"scaleDownDelaySeconds":30}`,
		`{"traffic":{"ports":[{"port":80,"targetPort":"http"},null,[]],"httpRoute":{"parentRefs":[{},{"name":1}],"hostnames":[1,""],"headers":{"":1}},"ingress":{"headers":{"a":"b","c":"d"},"tls":[]}}}`,
		"{\"targetVersion\":\"\xff\"}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		spec, errs := decodeSpec(raw)
		again, errsAgain := decodeSpec(raw)
		if !reflect.DeepEqual(spec, again) || texts(errs) != texts(errsAgain) {
			t.Errorf("want the same answer twice, got\n%+v\n%+v", spec, again)
		}
		if len(errs) == 0 && (spec.TargetVersion == "" || absent(spec.Template)) {
			t.Errorf("want an error for a spec without version or template, got %+v", spec)
		}
		if r := spec.Replicas; r != nil && (*r < 0 || *r > maxNumber) {
			t.Errorf("want replicas in range, got %d", *r)
		}
		for _, b := range spec.Batches {
			if (b.Pods > 0) == (b.Percent > 0) || b.Percent > 100 {
				t.Errorf("want pods or a percentage up to 100, got %+v", b)
			}
		}
		for _, err := range append(errs, validateTemplate(spec.Template, "default")...) {
			if len(err.Error()) > 2000 {
				t.Errorf("want an error that a person can read, got %d bytes", len(err.Error()))
			}
		}
	})
}
