package greyrelease

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestNM01_NM04_Name(t *testing.T) {
	const cure = `must be at most 52 lower case letters, digits and "-", beginning with a letter and ending with a letter or digit: create the release again under such a name`
	for _, name := range []string{"a", "web", "web-2", strings.Repeat("a", 40), strings.Repeat("a", 52), strings.Repeat("a-", 25) + "aa"} {
		if errs := validateName(name); len(errs) > 0 {
			t.Errorf("%s: want no error, got %s", name, texts(errs))
		}
	}
	for _, name := range []string{"", "my.app", "1web", "Web", "web-", "-web", "wéb", "my/app", "..", strings.Repeat("a", 53), strings.Repeat("a", 57)} {
		want := fmt.Sprintf("metadata.name: Invalid value: %q: %s", name, cure)
		if got := texts(validateName(name)); want != got {
			t.Errorf("%q: want\n%s\ngot\n%s", name, want, got)
		}
	}
	for _, n := range []int{63, 253} {
		want := fmt.Sprintf("metadata.name: Invalid value: %q: %s", strings.Repeat("a", 60)+"...", cure)
		if got := texts(validateName(strings.Repeat("a", n))); want != got {
			t.Errorf("%d characters: want\n%s\ngot\n%s", n, want, got)
		}
	}
}

// IV-02: a version is a string and stays as it was written.
func TestIV02_TargetVersion(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0a", 32)
	for _, version := range []string{"1.10", "0e1234", "007", "20161216", "v1.2.3-rc.1", "_x", "latest", digest, strings.Repeat("a", 128)} {
		got, errs := decodeSpec(specWith(t, fmt.Sprintf(`"targetVersion":%q`, version)))
		if len(errs) > 0 || got.TargetVersion != version {
			t.Errorf("want %q as it is, got %q %s", version, got.TargetVersion, texts(errs))
		}
	}
	const tag = `must be an image tag alone (at most 128 letters, digits, "_", "." and "-", not beginning with "." or "-") or a digest "sha256:<64 hex digits>"`
	for value, want := range map[string]string{
		`1.1`:            `Invalid value: 1.1: must be a string: quote it, as in "1.1"`,
		`20161216`:       `Invalid value: 20161216: must be a string: quote it, as in "20161216"`,
		`2.0161216e+07`:  `Invalid value: 2.0161216e+07: must be a string: quote it`,
		`0`:              `Invalid value: 0: must be a string: quote it, as in "0"`,
		`72044000000000`: `Invalid value: 72044000000000: must be a string: quote it, as in "72044000000000"`,
		`true`:           `Invalid value: true: must be a string: quote it, as in "true"`,
		`{}`:             `Invalid value: must be a string`,
		`["1"]`:          `Invalid value: must be a string`,
		`""`:             `Invalid value: "": ` + tag,
		`".1"`:           `Invalid value: ".1": ` + tag,
		`"-1"`:           `Invalid value: "-1": ` + tag,
		`"1.0 "`:         `Invalid value: "1.0 ": ` + tag,
		`"1.0\n"`:        `Invalid value: "1.0\n": ` + tag,
		`"1+build"`:      `Invalid value: "1+build": ` + tag,
		`"nginx:1.0"`:    `Invalid value: "nginx:1.0": ` + tag,
		`"sha256:0123"`:  `Invalid value: "sha256:0123": ` + tag,
		`"SHA256:` + strings.Repeat("0a", 32) + `"`: `Invalid value: "SHA256:` + strings.Repeat("0a", 26) + `0...": ` + tag,
		`"sha256:` + strings.Repeat("0A", 32) + `"`: `Invalid value: "sha256:` + strings.Repeat("0A", 26) + `0...": ` + tag,
		`"` + strings.Repeat("a", 129) + `"`:        `Invalid value: "` + strings.Repeat("a", 60) + `...": ` + tag,
	} {
		got, errs := decodeSpec(specWith(t, `"targetVersion":`+value))
		if want := "spec.targetVersion: " + want; texts(errs) != want {
			t.Errorf("%s: want\n%s\ngot\n%s", value, want, texts(errs))
		}
		if got.TargetVersion != "" {
			t.Errorf("%s: want no version, got %q", value, got.TargetVersion)
		}
	}
}

// IV-07 and RM-10: one rule for percentages and pods, wherever they stand.
func TestIV07_Quantities(t *testing.T) {
	for _, tt := range []struct {
		field, patch, path string
		from               int
	}{
		{"maxSurge", `"maxUnavailable":1,"maxSurge":%s`, "spec.maxSurge", 0},
		{"maxUnavailable", `"maxUnavailable":%s`, "spec.maxUnavailable", 0},
		{"batches", `"batches":[{"replicas":%s}]`, "spec.batches[0].replicas", 1},
	} {
		refused := fmt.Sprintf(`must be a whole number of pods from %d to 2147483647 or a percentage from "%d%%" to "100%%"`, tt.from, tt.from)
		for _, value := range []string{`1`, `1.0`, `150`, `500`, `"1%"`, `"25%"`, `"100%"`} {
			if _, errs := decodeSpec(specWith(t, fmt.Sprintf(tt.patch, value))); len(errs) > 0 {
				t.Errorf("%s %s: want no error, got %s", tt.field, value, texts(errs))
			}
		}
		for _, value := range []string{`"25"`, `"-10%"`, `"12.5%"`, `"150%"`, `""`, `" 10%"`, `"10 %"`, `"abc%"`, `"+5%"`, `"05%"`, `"%"`, `"101%"`, `"10%%"`, `-1`, `1.5`, `2147483648`, `1e20`, `true`} {
			_, errs := decodeSpec(specWith(t, fmt.Sprintf(tt.patch, value)))
			if want := tt.path + ": Invalid value: " + value + ": " + refused; texts(errs) != want {
				t.Errorf("%s %s: want\n%s\ngot\n%s", tt.field, value, want, texts(errs))
			}
		}
		for _, value := range []string{`0`, `"0%"`} {
			_, errs := decodeSpec(specWith(t, fmt.Sprintf(tt.patch, value)))
			want := ""
			if tt.from > 0 {
				want = tt.path + ": Invalid value: " + value + ": " + refused
			}
			if texts(errs) != want {
				t.Errorf("%s %s: want %q, got %q", tt.field, value, want, texts(errs))
			}
		}
	}
}

func TestValidateSpec(t *testing.T) {
	const bothZero = "cannot be 0 while maxUnavailable is 0: no pod could ever be replaced; set one of them to 1 or more"
	for _, tt := range []struct{ why, patch, want string }{
		{"both limits zero", `"maxSurge":0,"maxUnavailable":0`, `spec.maxSurge: Invalid value: 0: ` + bothZero},
		{"0% is a literal zero", `"maxSurge":"0%","maxUnavailable":"0%"`, `spec.maxSurge: Invalid value: "0%": ` + bothZero},
		{"both round to zero, which is cured by itself", `"replicas":3,"maxSurge":0,"maxUnavailable":"25%"`, ``},
		{"a wrong limit is not taken for a zero", `"maxSurge":"x","maxUnavailable":0`, `spec.maxSurge: Invalid value: "x": must be a whole number of pods from 0 to 2147483647 or a percentage from "0%" to "100%"`},
		{"deadline equal to minReadySeconds", `"minReadySeconds":60,"progressDeadlineSeconds":60`, `spec.progressDeadlineSeconds: Invalid value: 60: must be greater than minReadySeconds, 60: no pod could become available in time`},
		{"minReadySeconds above the default deadline", `"minReadySeconds":900`, `spec.progressDeadlineSeconds: Invalid value: 600: must be greater than minReadySeconds, 900: no pod could become available in time`},
		{"minReadySeconds 900 with room", `"minReadySeconds":900,"progressDeadlineSeconds":901`, ``},
		{"weight above 100", `"canaryWeight":101`, `spec.canaryWeight: Invalid value: 101: must be a whole number from 0 to 100`},
		{"negative soak", `"soakSeconds":-1`, `spec.soakSeconds: Invalid value: -1: must be a whole number from 0 to 2147483647`},
		{"history limit", `"revisionHistoryLimit":101`, `spec.revisionHistoryLimit: Invalid value: 101: must be a whole number from 0 to 100`},
		{"negative rollbackTo", `"rollbackTo":-1`, `spec.rollbackTo: Invalid value: -1: must be a whole number from 1 to 2147483647`},
		{"more restarts than anybody waits for", `"health":{"maxRestarts":1001}`, `spec.health.maxRestarts: Invalid value: 1001: must be a whole number from 1 to 1000`},
		{"health as a number", `"health":3`, `spec.health: Invalid value: 3: must be an object: as in {maxRestarts: 5}`},
		{"delay without a router", `"scaleDownDelaySeconds":30`, `spec.scaleDownDelaySeconds: Invalid value: 30: must be 0 without a router or BlueGreen: the pods of the previous version would still be reached`},
		{"paused in quotes", `"paused":"true"`, `spec.paused: Invalid value: "true": must be true or false, without quotes`},
		{"paused as a number", `"paused":1`, `spec.paused: Invalid value: 1: must be true or false`},
		{"BlueGreen", `"strategy":"BlueGreen"`, `spec.strategy: Invalid value: "BlueGreen": BlueGreen switches a Service from one version to the other: set traffic.ports`},
		{"another snapshotKind", `"snapshotKind":"configmap"`, `spec.snapshotKind: Invalid value: "configmap": must be ConfigMap, which is also the default, or Secret`},
		{"a Deployment's strategy", `"strategy":"RollingUpdate"`, `spec.strategy: Invalid value: "RollingUpdate": must be Canary, which is also the default, or BlueGreen`},
		{"a Deployment's strategy object", `"strategy":{"type":"RollingUpdate"}`, `spec.strategy: Invalid value: must be a string`},
		{"appName empty", `"appName":""`, `spec.appName: Invalid value: "": must be a label value: 1 to 63 letters, digits, "-", "_" and ".", beginning and ending with a letter or digit`},
		{"appName with a trailing hyphen, NM-02", `"appName":"web-"`, `spec.appName: Invalid value: "web-": must be a label value: 1 to 63 letters, digits, "-", "_" and ".", beginning and ending with a letter or digit`},
		{"appName of 63 characters", `"appName":"` + strings.Repeat("a", 63) + `"`, ``},
		{"batches null", `"batches":null`, ``},
		{"a batch null", `"batches":[null]`, `spec.batches[0]: Required value: say how many pods it brings, as in {replicas: 1} or {replicas: "20%"}`},
		{"a batch without size", `"batches":[{"weight":5}]`, `spec.batches[0].replicas: Required value: say how many pods it brings, as in {replicas: 1} or {replicas: "20%"}`},
		{"a batch as a number", `"batches":[1]`, `spec.batches[0]: Invalid value: 1: must be an object: say how many pods it brings, as in {replicas: 1} or {replicas: "20%"}`},
		{"batches as an object", `"batches":{"replicas":1}`, `spec.batches: Invalid value: must be a list, as in [{replicas: 1}, {replicas: "50%"}]`},
		{"batches as a number", `"batches":4`, `spec.batches: Invalid value: 4: must be a list, as in [{replicas: 1}, {replicas: "50%"}]`},
		{"pods that do not grow", `"batches":[{"replicas":5},{"replicas":5}]`, `spec.batches[1].replicas: Invalid value: 5: must be greater than that of the batch before, 5: sizes include all earlier batches`},
		{"percentages that shrink", `"batches":[{"replicas":1},{"replicas":"50%"},{"replicas":"20%"}]`, `spec.batches[2].replicas: Invalid value: "20%": must be greater than that of the batch before, "50%": sizes include all earlier batches`},
		{"percentages that do not grow", `"batches":[{"replicas":"50%"},{"replicas":"50%"}]`, `spec.batches[1].replicas: Invalid value: "50%": must be greater than that of the batch before, "50%": sizes include all earlier batches`},
		{"mixed types are not compared", `"batches":[{"replicas":5},{"replicas":"10%"},{"replicas":3},{"replicas":"5%"}]`, ``},
		{"weight of a batch", `"batches":[{"replicas":1,"weight":-5}]`, `spec.batches[0].weight: Invalid value: -5: must be a whole number from 0 to 100`},
		{"timeout without approval", `"batches":[{"replicas":1,"approvalTimeoutSeconds":60}]`, `spec.batches[0].approvalTimeoutSeconds: Invalid value: 60: has an effect only with approval: true: set that as well or remove this`},
		{"timeout with approval false", `"batches":[{"replicas":1,"approval":false,"approvalTimeoutSeconds":60}]`, `spec.batches[0].approvalTimeoutSeconds: Invalid value: 60: has an effect only with approval: true: set that as well or remove this`},
		{"50 batches", `"batches":[` + manyBatches(50) + `]`, ``},
		{"51 batches", `"batches":[` + manyBatches(51) + `]`, `spec.batches: Too many: 51: must have at most 50 items`},
		{"RM-12: replicas as large as a Deployment takes", `"replicas":2147483647,"batches":[{"replicas":"99%"}]`, ``},
	} {
		_, errs := decodeSpec(specWith(t, tt.patch))
		if got := texts(errs); tt.want != got {
			t.Errorf("%s: want\n%s\ngot\n%s", tt.why, tt.want, got)
		}
	}
}

func manyBatches(n int) string {
	items := make([]string, n)
	for i := range items {
		items[i] = fmt.Sprintf(`{"replicas":%d}`, i+1)
	}
	return strings.Join(items, ",")
}

// Keys are compared as the API server compares them, exactly.
func TestDecodeSpecIsCaseSensitive(t *testing.T) {
	_, errs := decodeSpec(json.RawMessage(`{"TargetVersion":"1","TEMPLATE":{}}`))
	want := `spec.targetVersion: Required value: name the image tag or digest to release, as in "1.28.0"
spec.template: Required value: describe the pods as in a Deployment`
	if got := texts(errs); want != got {
		t.Errorf("want\n%s\ngot\n%s", want, got)
	}
}
