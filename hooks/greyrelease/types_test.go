package greyrelease

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func jsonNames(t reflect.Type) []string {
	var names []string
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}

// The hook reads every field that the API has, and says so where a value does not
// fit: no field of the schema is left to the API server alone.
func TestEveryFieldIsChecked(t *testing.T) {
	for _, name := range jsonNames(reflect.TypeFor[GreyReleaseSpec]()) {
		value, path := `{"x":1}`, "spec."+name
		if name == "traffic" || name == "analysis" || name == "health" {
			value = `5` // its fields are checked below, and with analysis
		}
		if name == "template" {
			value = `5`
			if errs := validateTemplate(json.RawMessage(value), "default"); len(errs) != 1 || errs[0].Field != path {
				t.Errorf("%s: want one error there, got %q", name, texts(errs))
			}
			continue
		}
		_, errs := decodeSpec(specWith(t, fmt.Sprintf("%q:%s", name, value)))
		if len(errs) != 1 || errs[0].Field != path {
			t.Errorf("%s: want one error there, got %q", name, texts(errs))
		}
	}
	for _, name := range jsonNames(reflect.TypeFor[Batch]()) {
		_, errs := decodeSpec(specWith(t, fmt.Sprintf(`"batches":[{"replicas":1,%q:{"x":1}}]`, name)))
		if want := "spec.batches[0]." + name; len(errs) != 1 || errs[0].Field != want {
			t.Errorf("%s: want one error there, got %q", name, texts(errs))
		}
	}
}

// So it is with every field of spec.health.
func TestEveryFieldOfHealthIsChecked(t *testing.T) {
	for _, name := range jsonNames(reflect.TypeFor[Health]()) {
		_, errs := decodeSpec(specWith(t, fmt.Sprintf(`"health":{%q:"x"}`, name)))
		if want := "spec.health." + name; len(errs) != 1 || errs[0].Field != want {
			t.Errorf("%s: want one error there, got %q", name, texts(errs))
		}
	}
}

// So it is with every field of spec.traffic.
func TestEveryFieldOfTrafficIsChecked(t *testing.T) {
	for _, tt := range []struct {
		in    reflect.Type
		path  string
		patch string // %s is the field with a value that does not fit
	}{
		{reflect.TypeFor[Traffic](), "spec.traffic.", `"ports":[{"port":80}],%s`},
		{reflect.TypeFor[TrafficPort](), "spec.traffic.ports[0].", `"ports":[{"port":80,%s}]`},
		{reflect.TypeFor[TrafficHTTPRoute](), "spec.traffic.httpRoute.", `"ports":[{"port":80}],"httpRoute":{"parentRefs":[{"name":"gw"}],%s}`},
		{reflect.TypeFor[TrafficParentRef](), "spec.traffic.httpRoute.parentRefs[0].", `"ports":[{"port":80}],"httpRoute":{"parentRefs":[{"name":"gw",%s}]}`},
		{reflect.TypeFor[TrafficSticky](), "spec.traffic.httpRoute.sticky.", `"ports":[{"port":80}],"httpRoute":{"parentRefs":[{"name":"gw"}],"sticky":{%s}}`},
		{reflect.TypeFor[TrafficIngress](), "spec.traffic.ingress.", `"ports":[{"port":80}],"ingress":{%s}`},
		{reflect.TypeFor[TrafficTLS](), "spec.traffic.ingress.tls.", `"ports":[{"port":80}],"ingress":{"tls":{%s}}`},
	} {
		for _, name := range jsonNames(tt.in) {
			_, errs := decodeSpec(specWith(t, `"traffic":{`+fmt.Sprintf(tt.patch, `"`+name+`":[7]`)+`}`))
			if len(errs) == 0 || !strings.HasPrefix(errs[0].Field, tt.path+name) {
				t.Errorf("%s%s: want an error there, got %q", tt.path, name, texts(errs))
			}
		}
	}
}

// Columns and autoscalers read counts, so a zero is written; all else is left out
// while there is nothing to say.
func TestEmptyStatus(t *testing.T) {
	got, err := json.Marshal(GreyReleaseStatus{})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"currentBatch":0,"totalBatches":0,"canaryWeight":0,"replicas":0,"updatedReplicas":0,"readyReplicas":0,"availableReplicas":0}`
	if want != string(got) {
		t.Errorf("want %s, got %s", want, got)
	}
}
