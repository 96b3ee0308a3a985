package gatewayapi

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	servervalidation "k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/gateway-api/pkg/consts"
	"sigs.k8s.io/yaml"

	"greyrelease.example.com/test/sim"
)

// admission does to an HTTPRoute what an API server does that has one channel of the
// Gateway API.
type admission struct {
	structural *structuralschema.Structural
	schema     servervalidation.SchemaValidator
	rules      *cel.Validator
}

func newAdmission(t *testing.T, channel string) *admission {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/gateway-api")
	dir, err := list.Output()
	if err != nil {
		t.Fatalf("cannot find the module of the Gateway API: %v", err)
	}
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "config", "crd", channel, "gateway.networking.k8s.io_httproutes.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var d apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	if got := d.Annotations[consts.BundleVersionAnnotation]; got != consts.BundleVersion {
		t.Fatalf("want the definition of %s, got %s", consts.BundleVersion, got)
	}
	i := slices.IndexFunc(d.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == "v1" })
	if i < 0 {
		t.Fatal("want version v1, got none")
	}
	var props apiextensions.CustomResourceValidation
	if err := apiextensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(d.Spec.Versions[i].Schema, &props, nil); err != nil {
		t.Fatal(err)
	}
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

// admit returns object as it would be stored, what is wrong with it, and the fields
// that are dropped.
func (a *admission) admit(object map[string]any) (stored map[string]any, wrong field.ErrorList, dropped []string) {
	stored = runtime.DeepCopyJSON(object)
	dropped = pruning.PruneWithOptions(stored, a.structural, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	defaulting.Default(stored, a.structural)
	wrong = servervalidation.ValidateCustomResource(nil, stored, a.schema)
	if len(wrong) == 0 {
		wrong, _ = a.rules.Validate(context.Background(), nil, a.structural, stored, nil, celconfig.RuntimeCELCostBudget)
	}
	return stored, wrong, dropped
}

// routes are the different HTTPRoutes that a release asks for on its way from one
// version to the next and back.
func routes(t *testing.T, httpRoute string) []map[string]any {
	t.Helper()
	seen := map[string]bool{}
	hook := func(body []byte, now time.Time) (sim.Reply, error) {
		reply, err := sim.Product(body, now)
		var answer struct{ Children []json.RawMessage }
		if err == nil && json.Unmarshal(reply.Body, &answer) == nil {
			for _, child := range answer.Children {
				if strings.HasPrefix(string(child), `{"apiVersion":"gateway.networking.k8s.io/v1"`) {
					seen[string(child)] = true
				}
			}
		}
		return reply, err
	}
	c := sim.New(sim.Options{
		Seed: 1, Mode: sim.ServerSide, Children: []*sim.Kind{sim.ConfigMaps, sim.Deployments, sim.Services, sim.HTTPRoutes},
	}, hook)
	tree, err := sim.Parse(`{apiVersion: greyrelease.example.com/v1, kind: GreyRelease, metadata: {name: web, namespace: default}, spec: {
  replicas: 4, targetVersion: "1.0", batches: [{replicas: 1, weight: 5, soakSeconds: 60}, {replicas: 2, soakSeconds: 60}],
  template: {spec: {containers: [{name: web, image: nginx}]}}, traffic: {ports: [{port: 80}], httpRoute: ` + httpRoute + `}}}`)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Apply(tree); err != nil {
		t.Fatal(err)
	}
	run := func(d time.Duration) {
		t.Helper()
		if err := c.Run(d); err != nil {
			t.Fatal(err)
		}
	}
	run(2 * time.Minute)
	for _, version := range []string{"2.0", "1.0", "3.0"} {
		if err := c.Edit(sim.Release("web"), map[string]any{"spec": map[string]any{"targetVersion": version}}); err != nil {
			t.Fatal(err)
		}
		run(90 * time.Second)
	}
	run(5 * time.Minute)
	var all []map[string]any
	for _, text := range slices.Sorted(maps.Keys(seen)) {
		tree, err := sim.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, tree)
	}
	if len(all) < 5 {
		t.Fatalf("want at least 5 different routes, got %d; %s", len(all), c.Server.Get(sim.Release("web")).Text("status", "message"))
	}
	return all
}

// Every HTTPRoute is accepted and stored as it was sent: no field is dropped, and
// none is filled in, because that would make every later sync write.
func TestRoutesAreStoredAsTheyAreSent(t *testing.T) {
	const sticky = "sessionPersistence"
	for _, channel := range []string{"standard", "experimental"} {
		a := newAdmission(t, channel)
		for why, route := range map[string]string{
			"as little as possible": `{parentRefs: [{name: gw}]}`,
			"everything": `{parentRefs: [{name: gw, namespace: infra, sectionName: a.b, port: 443}, {name: gw, namespace: infra, sectionName: c, port: 80}],
  hostnames: [a.example.com, "*.b.example.com"], path: "/a-b/c_d~e.f%20!$&'()*+,;=:@", headers: {X-Test: "a b, c", "!#$%&'*+-.^_|~": "1"}, sticky: {cookieName: a.b_c-d}}`,
		} {
			for _, sent := range routes(t, route) {
				stored, wrong, dropped := a.admit(sent)
				if len(wrong) > 0 {
					t.Errorf("%s, %s: want it accepted, got %v\n%v", channel, why, wrong, sent)
					continue
				}
				if channel == "standard" {
					// The one field that this channel lacks: the hook tells users so.
					dropped = slices.DeleteFunc(dropped, func(path string) bool { return strings.HasSuffix(path, sticky) })
				} else if !reflect.DeepEqual(sent, stored) {
					t.Errorf("%s, %s: want\n%v\ngot\n%v", channel, why, sent, stored)
				}
				if len(dropped) > 0 {
					t.Errorf("%s, %s: want no field dropped, got %v", channel, why, dropped)
				}
			}
		}
	}
}

// What the API server would refuse is refused by the hook already: the other way
// round a release would hang, with an event that nobody reads.
func TestHookIsAsStrict(t *testing.T) {
	a := newAdmission(t, "standard")
	for _, tt := range []struct{ why, refs, rest string }{
		{"one gateway twice", `[{"name":"gw"},{"name":"gw"}]`, ``},
		{"two ports of one gateway", `[{"name":"gw","port":80},{"name":"gw","port":443}]`, ``},
		{"one listener twice", `[{"name":"gw","sectionName":"a"},{"name":"gw","sectionName":"a"}]`, ``},
		{"an address", `[{"name":"gw"}]`, `,"hostnames":["a.example.com:80"]`},
		{"no gateways", `[` + strings.TrimSuffix(strings.Repeat(`{"name":"gw"},`, 33), ",") + `]`, ``},
		{"a path upwards", `[{"name":"gw"}]`, `,"path":"/a/../b"`},
		{"a path with a slash in disguise", `[{"name":"gw"}]`, `,"path":"/a%2Fb"`},
		{"a header with a blank", `[{"name":"gw"}]`, `,"headers":{"a b":"c"}`},
		{"a header without a value", `[{"name":"gw"}]`, `,"headers":{"a":""}`},
	} {
		body := fmt.Sprintf(`{"parent":{"metadata":{"name":"web","namespace":"default","generation":1},"spec":{"targetVersion":"1","template":{"spec":{"containers":[{"name":"a","image":"a"}]}},"traffic":{"ports":[{"port":80}],"httpRoute":{"parentRefs":%s%s}}}},`+
			`"children":{"Deployment.apps/v1":{},"ConfigMap.v1":{},"Service.v1":{},"HTTPRoute.gateway.networking.k8s.io/v1":{}}}`, tt.refs, tt.rest)
		reply, err := sim.Product([]byte(body), time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC))
		if err != nil || !strings.Contains(string(reply.Body), `"phase":"Invalid"`) {
			t.Errorf("%s: want Invalid, got %v %s", tt.why, err, reply.Body)
		}
		if _, wrong, _ := a.admit(raw(t, tt.refs, tt.rest)); len(wrong) == 0 {
			t.Errorf("%s: want it refused by the API server, got no error: this row shows nothing", tt.why)
		}
	}
}

// raw is an HTTPRoute with the fields of spec.traffic.httpRoute as they are.
func raw(t *testing.T, refs, rest string) map[string]any {
	t.Helper()
	var in struct {
		Hostnames []any
		Path      string
		Headers   map[string]string
	}
	if err := json.Unmarshal([]byte(`{"x":0`+rest+`}`), &in); err != nil {
		t.Fatal(err)
	}
	match := map[string]any{}
	if in.Path != "" {
		match["path"] = map[string]any{"type": "PathPrefix", "value": in.Path}
	}
	for name, value := range in.Headers {
		match["headers"] = []any{map[string]any{"name": name, "value": value}}
	}
	text, err := json.Marshal(map[string]any{
		"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": map[string]any{"name": "web", "namespace": "default"},
		"spec": map[string]any{"parentRefs": json.RawMessage(refs), "hostnames": in.Hostnames, "rules": []any{map[string]any{"matches": []any{match}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	tree, err := sim.Parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	if in.Hostnames == nil {
		delete(tree["spec"].(map[string]any), "hostnames")
	}
	return tree
}
