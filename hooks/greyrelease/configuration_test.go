package greyrelease

import (
	"fmt"
	"strings"
	"testing"

	"greyrelease.example.com/hooks/jsontree"
)

func TestNotRestored(t *testing.T) {
	many := make([]string, 0, 7)
	for i := range 7 {
		many = append(many, fmt.Sprintf(`{"secretRef":{"name":"s%d"}}`, i))
	}
	for _, test := range []struct{ why, spec, want string }{
		{"nothing is read, as far as the template says", `{"containers":[{"name":"a","image":"a"}]}`, "configuration outside the template is not restored"},
		{"a volume", `{"volumes":[{"name":"v","configMap":{"name":"settings"}}]}`, "ConfigMap settings is not restored"},
		{"the other volumes", `{"volumes":[{"name":"a","secret":{"secretName":"tls"}},{"name":"b","projected":{"sources":[{"configMap":{"name":"ca"}},{"secret":{"name":"token"}},{"serviceAccountToken":{}}]}}]}`,
			"ConfigMap ca, Secret tls and Secret token are not restored"},
		{"variables, of init containers too, named once", `{"initContainers":[{"env":[{"name":"A","valueFrom":{"secretKeyRef":{"name":"db","key":"a"}}},{"name":"B","value":"b"}]}],
			"containers":[{"env":[{"name":"A","valueFrom":{"secretKeyRef":{"name":"db","key":"b"}}},{"name":"C","valueFrom":{"configMapKeyRef":{"name":"flags","key":"c"}}}],"envFrom":[{"configMapRef":{"name":"more"}}]}]}`,
			"ConfigMap flags, ConfigMap more and Secret db are not restored"},
		{"many", `{"containers":[{"envFrom":[` + strings.Join(many, ",") + `]}]}`, "Secret s0, Secret s1, Secret s2, Secret s3, Secret s4 and 2 more are not restored"},
		{"shapes that the API server would refuse", `{"volumes":{"configMap":{"name":"x"}},"containers":[{"env":"x","envFrom":[{"secretRef":"x"}]}]}`, "configuration outside the template is not restored"},
	} {
		template, err := jsontree.Parse([]byte(`{"spec":` + test.spec + `}`))
		if err != nil {
			t.Fatal(err)
		}
		a := answer{desire: desire{template: template}}
		if got := a.notRestored(); test.want != got {
			t.Errorf("%s: want %q, got %q", test.why, test.want, got)
		}
	}
}
