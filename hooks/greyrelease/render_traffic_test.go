package greyrelease

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"greyrelease.example.com/hooks/history"
	"greyrelease.example.com/hooks/rollout"
	"greyrelease.example.com/test/sim/apply"
)

var modes = map[string]history.Mode{"dynamic": history.Dynamic, "server-side": history.ServerSide}

// inBothModes runs a test once for each way in which Metacontroller writes.
func inBothModes(t *testing.T, traffic string, test func(t *testing.T, w *world)) {
	t.Helper()
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) { test(t, newWorld(t, mode, traffic)) })
	}
}

// Every kind is written once for each change and then never again, by the real
// rules of merging in both modes: an idle release causes no write.
func TestNothingIsWrittenTwice(t *testing.T) {
	const everyPort = `"ports":[{"name":"http","port":80,"targetPort":"http","appProtocol":"http"},{"name":"dns","port":53,"protocol":"UDP"}]`
	for why, traffic := range map[string]string{
		"ports alone":                 `"traffic":{` + everyPort + `}`,
		"a route":                     webRoute,
		"a route without anything":    `"traffic":{` + webPorts + `,"httpRoute":{"parentRefs":[{"name":"gw"}]}}`,
		"a route with two gateways":   `"traffic":{` + everyPort + `,"httpRoute":{"parentRefs":[{"name":"a","sectionName":"x","port":1},{"name":"b"}],"headers":{"A":"1","B":"2"}}}`,
		"Ingresses":                   webPair,
		"an Ingress without anything": `"traffic":{` + webPorts + `,"ingress":{}}`,
		"BlueGreen":                   webBlue,
	} {
		t.Run(why, func(t *testing.T) {
			inBothModes(t, traffic, func(t *testing.T, w *world) {
				for _, weights := range []map[int64]int64{{1: 100}, {1: 80, 2: 20}, {1: 30, 2: 70}, {2: 100}, {1: 0, 2: 100}} {
					if w.record.Settings.Router == rollout.RouterSwitch && weights[1] > 0 {
						weights = map[int64]int64{1: 100, 2: 0}
					}
					if w.record.Settings.Router != rollout.RouterNone {
						w.route(2, weights)
					}
					a := w.settle()
					if a.facts.Traffic != nil && w.record.Settings.Router != rollout.RouterWeights && !a.facts.Traffic.Placed {
						t.Errorf("%v: want it in place, got\n%s", weights, w.show())
					}
				}
			})
		})
	}
}

func TestHTTPRoute(t *testing.T) {
	inBothModes(t, webRoute, func(t *testing.T, w *world) {
		w.settle()
		w.want("no route yet", `
			Service web -> 1
			Service web-1111111111 -> 1
			Service web-2222222222 -> 2`)
		w.route(0, map[int64]int64{1: 100})
		w.settle()
		w.route(2, map[int64]int64{1: 80, 2: 20})
		w.settle()
		w.want("a header and a weight", `
			HTTPRoute web [1 headers: 2=100] [0 headers: 1=80 2=20]
			Service web -> 1
			Service web-1111111111 -> 1
			Service web-2222222222 -> 2`)
		w.route(0, map[int64]int64{1: 0, 2: 100})
		w.settle()
		w.want("a weight of 0 is written", `
			HTTPRoute web [0 headers: 1=0 2=100]
			Service web -> 2
			Service web-1111111111 -> 1
			Service web-2222222222 -> 2`)
		w.record.Stable, w.record.Stage = revisionOf(2), rollout.Complete
		delete(w.pods, 1)
		w.route(0, map[int64]int64{2: 100})
		writes := strings.Join(w.apply(w.sync()), ", ")
		if want := "HTTPRoute web"; want != writes {
			t.Errorf("want %s, got %s: a Service that a route is observed to name stays", want, writes)
		}
		w.settle()
		w.want("released", `
			HTTPRoute web [0 headers: 2=100]
			Service web -> 2
			Service web-2222222222 -> 2`)
	})
}

// The whole HTTPRoute, byte by byte.
func TestHTTPRouteIsWhole(t *testing.T) {
	w := newWorld(t, history.Dynamic, strings.Replace(webRoute, `"path"`, `"sticky":{"cookieName":"v"},"path"`, 1))
	w.route(2, map[int64]int64{1: 95, 2: 5})
	a := w.sync()
	i := slices.IndexFunc(a.children, func(c any) bool { _, ok := c.(httpRoute); return ok })
	if i < 0 {
		t.Fatalf("want an HTTPRoute, got %+v", a.children)
	}
	want := `{"apiVersion":"gateway.networking.k8s.io/v1","kind":"HTTPRoute","metadata":{"name":"web","labels":{"greyrelease.example.com/name":"web"},"annotations":{"greyrelease.example.com/decision":"{\"counter\":8,\"time\":\"2026-11-30T12:00:00Z\",\"attempt\":1}"}},` +
		`"spec":{"parentRefs":[{"group":"gateway.networking.k8s.io","kind":"Gateway","namespace":"infra","name":"gw"}],"hostnames":["a.example.com"],"rules":[` +
		`{"matches":[{"path":{"type":"PathPrefix","value":"/shop"},"headers":[{"type":"Exact","name":"X-Test","value":"yes"}]}],"backendRefs":[{"group":"","kind":"Service","name":"web-2222222222","port":80,"weight":100}],"sessionPersistence":{"sessionName":"v","type":"Cookie"}},` +
		`{"matches":[{"path":{"type":"PathPrefix","value":"/shop"}}],"backendRefs":[{"group":"","kind":"Service","name":"web-1111111111","port":80,"weight":95},{"group":"","kind":"Service","name":"web-2222222222","port":80,"weight":5}],"sessionPersistence":{"sessionName":"v","type":"Cookie"}}]}}`
	if got := string(w.encode(a.children[i])); want != got {
		t.Errorf("want\n%s\ngot\n%s", want, got)
	}
}

// The order in which two Ingresses move: whatever is written first, no version gets
// more than it should and none without endpoints is the main one.
func TestIngresses(t *testing.T) {
	inBothModes(t, webPair, func(t *testing.T, w *world) {
		step := func(why, want string) {
			t.Helper()
			a := w.sync()
			w.apply(a)
			var lines []string
			for _, line := range strings.Split(w.show(), "\n") {
				if strings.HasPrefix(line, "Ingress") {
					lines = append(lines, line)
				}
			}
			if got := strings.Join(lines, ", "); want != got {
				t.Errorf("%s: want %s, got %s", why, want, got)
			}
		}
		placed := func(want bool) {
			t.Helper()
			if got := w.sync().facts.Traffic.Placed; want != got {
				t.Errorf("want placed %t, got %t with\n%s", want, got, w.show())
			}
		}
		w.route(0, map[int64]int64{1: 100})
		step("one version", "Ingress web -> 1")
		placed(true)
		w.route(2, map[int64]int64{1: 100, 2: 0})
		placed(false)
		step("a header alone", "Ingress web -> 1, Ingress web-canary -> 2 0% X-Test: yes")
		w.route(2, map[int64]int64{1: 80, 2: 20})
		step("both", "Ingress web -> 1, Ingress web-canary -> 2 20% X-Test: yes")
		placed(true)
		w.route(0, map[int64]int64{1: 0, 2: 100})
		step("all to the new version: main first", "Ingress web -> 2, Ingress web-canary -> 2 20% X-Test: yes")
		placed(false)
		step("then the canary goes", "Ingress web -> 2")
		placed(true)
		w.route(0, map[int64]int64{1: 30, 2: 70})
		step("back: the canary first", "Ingress web -> 2, Ingress web-canary -> 2 70%")
		placed(false)
		step("then main", "Ingress web -> 1, Ingress web-canary -> 2 70%")
		placed(true)
		w.route(0, map[int64]int64{1: 100, 2: 0})
		step("the canary goes", "Ingress web -> 1")
		placed(true)
	})
}

func TestObservedWeights(t *testing.T) {
	pair := func(main, canary int64, weight string) func(w *world) {
		return func(w *world) {
			w.route(2, map[int64]int64{1: 80, 2: 20})
			w.settle()
			set := func(key string, n int64) {
				path := apply.List(apply.List(w.objects[key], "spec", "rules")[0], "http", "paths")[0]
				path.(map[string]any)["backend"].(map[string]any)["service"].(map[string]any)["name"] = "web-" + hash(n)
			}
			set("Ingress web", main)
			set("Ingress web-canary", canary)
			apply.Object(w.objects["Ingress web-canary"], "metadata", "annotations")[nginxWeight] = weight
		}
	}
	backends := func(text string) func(w *world) {
		return func(w *world) {
			w.route(0, map[int64]int64{1: 80, 2: 20})
			w.settle()
			var list []any
			if err := json.Unmarshal([]byte(text), &list); err != nil {
				w.t.Fatal(err)
			}
			apply.List(w.objects["HTTPRoute web"], "spec", "rules")[0].(map[string]any)["backendRefs"] = list
		}
	}
	const one, two = `{"name":"web-1111111111","port":80,"weight":`, `{"name":"web-2222222222","port":80,"weight":`
	for _, tt := range []struct {
		why, traffic string
		prepare      func(w *world)
		want         rollout.Traffic
	}{
		{"a route that was never made", webRoute, func(w *world) {}, rollout.Traffic{Weights: map[int64]int64{}}},
		{"as it was made", webRoute, func(w *world) { w.route(2, map[int64]int64{1: 80, 2: 20}); w.settle() },
			rollout.Traffic{Weights: map[int64]int64{1: 80, 2: 20}, Header: 2, Leads: map[int64]bool{1: true, 2: true}}},
		{"weights of others are relative", webRoute, backends(`[` + one + `2},` + two + `1}]`),
			rollout.Traffic{Weights: map[int64]int64{1: 67, 2: 34}, Leads: map[int64]bool{1: true}}},
		{"an absent weight is 1", webRoute, backends(`[{"name":"web-1111111111","port":80},` + two + `3}]`),
			rollout.Traffic{Weights: map[int64]int64{1: 25, 2: 75}, Leads: map[int64]bool{1: true}}},
		{"all 0", webRoute, backends(`[` + one + `0},` + two + `0}]`),
			rollout.Traffic{Weights: map[int64]int64{1: 0, 2: 0}, Leads: map[int64]bool{1: true}}},
		{"a Service of nobody", webRoute, backends(`[` + one + `50},{"name":"other","port":80,"weight":50}]`),
			rollout.Traffic{Weights: map[int64]int64{1: 50}, Leads: map[int64]bool{1: true}}},
		{"HTTPRoutes are not seen", webRoute, func(w *world) {
			w.route(2, map[int64]int64{1: 80, 2: 20})
			w.settle()
			w.missing, w.invalid = []string{kindHTTPRoute}, true
		}, rollout.Traffic{Weights: map[int64]int64{1: 80, 2: 20}, Header: 2, Leads: map[int64]bool{1: true}}},
		{"main and canary", webPair, pair(1, 2, "20"),
			rollout.Traffic{Weights: map[int64]int64{1: 80, 2: 20}, Header: 2, Leads: map[int64]bool{1: true, 2: true}, Placed: true}},
		{"both on one", webPair, pair(2, 2, "20"),
			rollout.Traffic{Weights: map[int64]int64{2: 100}, Header: 2, Leads: map[int64]bool{1: true, 2: true}}},
		{"a canary that takes all: main must answer all the same", webPair, pair(1, 2, "100"),
			rollout.Traffic{Weights: map[int64]int64{1: 0, 2: 100}, Header: 2, Leads: map[int64]bool{1: true, 2: true}}},
		{"a weight that is none", webPair, pair(1, 2, "many"),
			rollout.Traffic{Weights: map[int64]int64{1: 100, 2: 0}, Header: 2, Leads: map[int64]bool{1: true, 2: true}}},
		{"a Service that was switched", webBlue, func(w *world) { w.route(0, map[int64]int64{1: 0, 2: 100}); w.settle() },
			rollout.Traffic{Weights: map[int64]int64{2: 100}, Leads: map[int64]bool{2: true}, Placed: true}},
		{"a preview", webBlue, func(w *world) { w.route(0, map[int64]int64{1: 100, 2: 0}); w.settle() },
			rollout.Traffic{Weights: map[int64]int64{1: 100}, Leads: map[int64]bool{2: true}, Placed: true}},
	} {
		inBothModes(t, tt.traffic, func(t *testing.T, w *world) {
			tt.prepare(w)
			got := *w.sync().facts.Traffic
			got.Endpoints = nil
			if tt.want.Leads == nil {
				tt.want.Leads = map[int64]bool{}
			}
			if want, got := string(w.encode(tt.want)), string(w.encode(got)); want != got {
				t.Errorf("%s: want %s, got %s", tt.why, want, got)
			}
		})
	}
}

// A route is in force when one of the gateways that the spec names has accepted it
// as it is now; what others say, or what was said of an earlier one, does not count.
func TestAcceptance(t *testing.T) {
	says := func(name, status, generation string) string {
		return `{"parentRef":{"name":"` + name + `","namespace":"infra"},"conditions":[{"type":"Accepted","status":"` + status + `","observedGeneration":` + generation + `,"reason":"NoMatchingListenerHostname","message":"no  listener"}]}`
	}
	const two = `"traffic":{` + webPorts + `,"httpRoute":{"parentRefs":[{"name":"gw","namespace":"infra"},{"name":"other","namespace":"infra"}]}}`
	const refused = "NoMatchingListenerHostname: no listener"
	for _, tt := range []struct {
		why, traffic, parents string
		after                 time.Duration
		placed                bool
		refused               string
		wake                  int64
		note                  string
	}{
		{"accepted", webRoute, says("gw", "True", "2"), 0, true, "", 0, ""},
		{"accepted before the change", webRoute, says("gw", "True", "1"), 0, false, "", 30, ""},
		{"accepted for a later change already", webRoute, says("gw", "True", "3"), 0, true, "", 0, ""},
		{"nobody says anything", webRoute, "", 0, false, "", 30, ""},
		{"nobody says anything for 29 s", webRoute, "", 29 * time.Second, false, "", 1, ""},
		{"nobody says anything for 30 s", webRoute, "", 30 * time.Second, true, "", 0, "no gateway has reported on HTTPRoute web within 30 s: it counts as accepted"},
		{"a stranger accepts", webRoute, says("stranger", "True", "2"), 0, false, "", 30, ""},
		{"refused", webRoute, says("gw", "False", "2"), 0, false, refused, 0, ""},
		{"refused before the change", webRoute, says("gw", "False", "1"), 0, false, "", 30, ""},
		{"unknown", webRoute, says("gw", "Unknown", "2"), 0, false, "", 30, ""},
		{"one of two refuses, the other is awaited", two, says("gw", "False", "2"), 0, false, "", 30, ""},
		{"one of two refuses, the other says nothing", two, says("gw", "False", "2"), 30 * time.Second, false, refused, 0, ""},
		{"one of two refuses, the other accepts", two, says("gw", "False", "2") + "," + says("other", "True", "2"), 0, true, "", 0, ""},
		{"both refuse", two, says("gw", "False", "2") + "," + says("other", "False", "2"), 0, false, refused, 0, ""},
		{"two controllers at one gateway, one accepts", webRoute, says("gw", "False", "2") + "," + says("gw", "True", "2"), 0, true, "", 0, ""},
	} {
		w := newWorld(t, history.Dynamic, tt.traffic)
		w.route(0, map[int64]int64{1: 100})
		w.settle()
		w.route(0, map[int64]int64{1: 80, 2: 20})
		w.settle()
		w.parents = `[` + tt.parents + `]`
		w.now = w.now.Add(tt.after)
		a := w.sync()
		got := a.facts.Traffic
		if tt.placed != got.Placed || tt.refused != got.Refused || tt.wake != a.routeWake {
			t.Errorf("%s: want placed %t, refused %q, a look in %d s, got %t, %q, %d s", tt.why, tt.placed, tt.refused, tt.wake, got.Placed, got.Refused, a.routeWake)
		}
		if got := strings.Join(a.notes, "; "); tt.note != got {
			t.Errorf("%s: want the note %q, got %q", tt.why, tt.note, got)
		}
	}
}

// BlueGreen: the preview comes with the last pod, the switch follows the record, and
// the root is not made before there are pods behind it.
func TestBlueGreenServices(t *testing.T) {
	inBothModes(t, webBlue, func(t *testing.T, w *world) {
		w.pods[1], w.pods[2] = 0, 0
		w.settle()
		w.want("no pods: no root, which would take over a Service of that name", `
			Service web-1111111111 -> 1
			Service web-2222222222 -> 2`)
		w.pods[1], w.pods[2] = 2, 1
		w.route(0, map[int64]int64{1: 100})
		w.settle()
		w.want("one pod of two", `
			Service web -> 1
			Service web-1111111111 -> 1
			Service web-2222222222 -> 2`)
		w.pods[2] = 2
		w.settle()
		w.want("all pods", `
			Service web -> 1
			Service web-1111111111 -> 1
			Service web-2222222222 -> 2
			Service web-preview -> 2`)
		w.pods[2] = 1
		w.settle()
		w.want("the preview stays", `
			Service web -> 1
			Service web-1111111111 -> 1
			Service web-2222222222 -> 2
			Service web-preview -> 2`)
		w.route(0, map[int64]int64{1: 0, 2: 100})
		w.record.Stage = rollout.Promoting
		w.settle()
		w.want("switched", `
			Service web -> 2
			Service web-1111111111 -> 1
			Service web-2222222222 -> 2
			Service web-preview -> 2`)
		w.record.Stage, w.record.Stable = rollout.Complete, revisionOf(2)
		w.settle()
		w.want("released, the old version is kept", `
			Service web -> 2
			Service web-1111111111 -> 1
			Service web-2222222222 -> 2`)
		w.route(0, map[int64]int64{2: 100})
		delete(w.pods, 1)
		w.settle()
		w.want("the old version has gone", `
			Service web -> 2
			Service web-2222222222 -> 2`)
	})
}

func TestRootService(t *testing.T) {
	t.Run("without a router it selects all pods", func(t *testing.T) {
		inBothModes(t, webPlain, func(t *testing.T, w *world) {
			w.settle()
			w.want("mid-release", `
				Service web -> all
				Service web-1111111111 -> 1
				Service web-2222222222 -> 2`)
		})
	})
	t.Run("a first version that is replaced keeps it until the next one serves", func(t *testing.T) {
		inBothModes(t, webRoute, func(t *testing.T, w *world) {
			w.record.Stable, w.record.Target, w.record.Stage = rollout.Revision{}, revisionOf(1), rollout.Promoting
			delete(w.pods, 2)
			w.settle()
			w.record.Target = revisionOf(2)
			w.pods[2] = 0
			w.settle()
			w.want("no pod of 2", `
				Service web -> 1
				Service web-1111111111 -> 1
				Service web-2222222222 -> 2`)
			w.pods[2] = 1
			w.settle()
			w.want("a pod of 2", `
				Service web -> 2
				Service web-1111111111 -> 1
				Service web-2222222222 -> 2`)
		})
	})
	t.Run("deleted while nothing runs it is made again", func(t *testing.T) {
		for traffic, line := range map[string]string{webPlain: "Service web -> all", webRoute: "Service web -> 1", webPair: "Service web -> 1", webBlue: "Service web -> 1"} {
			inBothModes(t, traffic, func(t *testing.T, w *world) {
				if w.record.Settings.Router != rollout.RouterNone {
					w.route(0, map[int64]int64{1: 100})
				}
				w.settle()
				delete(w.objects, "Service web")
				w.pods[1], w.pods[2] = 0, 0
				w.settle()
				if !strings.Contains(w.show(), line+"\n") {
					t.Errorf("want %s, got\n%s", line, w.show())
				}
			})
		}
	})
	t.Run("under another name the old one goes when the new one is there", func(t *testing.T) {
		inBothModes(t, webPlain, func(t *testing.T, w *world) {
			w.settle()
			w.traffic = `"traffic":{"serviceName":"shop",` + webPorts + `}`
			if got := strings.Join(w.apply(w.sync()), ", "); got != "Service shop" {
				t.Errorf("want the new one made first, got %s", got)
			}
			if got := strings.Join(w.apply(w.sync()), ", "); got != "delete Service web" {
				t.Errorf("want the old one gone then, got %s", got)
			}
		})
	})
}

// While the spec is invalid the routes go on as they look, with the record's
// weights: a rollback must not wait for a typing error.
func TestInvalidSpecKeepsRoutes(t *testing.T) {
	for _, traffic := range []string{webRoute, webPair} {
		inBothModes(t, traffic, func(t *testing.T, w *world) {
			header := int64(2)
			w.route(header, map[int64]int64{1: 80, 2: 20})
			w.settle()
			was := apply.CloneMap(w.objects["HTTPRoute web"])
			w.invalid = true
			w.traffic = `"traffic":{"ports":[{"port":0}]}`
			if writes := w.apply(w.sync()); len(writes) > 0 {
				t.Errorf("want nothing written, got %v", writes)
			}
			w.route(0, map[int64]int64{1: 100, 2: 0})
			w.settle()
			if strings.Contains(w.show(), "2=20") || strings.Contains(w.show(), "20%") {
				t.Errorf("want no request led to 2, got\n%s", w.show())
			}
			if is := w.objects["HTTPRoute web"]; is != nil && (!apply.Equal(apply.Field(was, "spec", "hostnames"), apply.Field(is, "spec", "hostnames")) ||
				!apply.Equal(apply.Field(was, "spec", "parentRefs"), apply.Field(is, "spec", "parentRefs"))) {
				t.Errorf("want hosts and gateways kept, got %v", is["spec"])
			}
		})
	}
}

// A record that was made again while the spec was invalid knows of no router.
func TestInvalidSpecKeepsRoutesOfALostRecord(t *testing.T) {
	for _, traffic := range []string{webRoute, webPair} {
		inBothModes(t, traffic, func(t *testing.T, w *world) {
			w.route(2, map[int64]int64{1: 80, 2: 20})
			w.settle()
			w.invalid = true
			w.traffic = `"traffic":{"ports":[{"port":0}]}`
			w.record.Settings.Router, w.record.Route = rollout.RouterNone, nil
			for _, write := range w.apply(w.sync()) {
				if !strings.HasPrefix(write, "Service ") {
					t.Errorf("want all routes kept, got %s", write)
				}
			}
		})
	}
}

// A release that gets another router keeps the objects of the one before until
// those of today's are in place, and what they lead to.
func TestRouterChanges(t *testing.T) {
	change := func(t *testing.T, w *world, traffic string) {
		t.Helper()
		w.traffic = traffic
		spec, errs := decodeSpec(specWith(t, traffic))
		if len(errs) > 0 {
			t.Fatal(texts(errs))
		}
		w.record.Settings = spec.settings()
	}
	leads := func(t *testing.T, w *world) {
		t.Helper()
		if tr := w.sync().facts.Traffic; !tr.Leads[1] || !tr.Leads[2] {
			t.Errorf("want requests led to both still, got %v", tr.Leads)
		}
	}
	t.Run("to Ingresses", func(t *testing.T) {
		inBothModes(t, webRoute, func(t *testing.T, w *world) {
			w.route(0, map[int64]int64{1: 80, 2: 20})
			w.settle()
			change(t, w, webPair)
			leads(t, w)
			if got := strings.Join(w.apply(w.sync()), ", "); got != "Ingress web, Ingress web-canary" {
				t.Errorf("want the Ingresses made and nothing dropped, got %s", got)
			}
			if got := strings.Join(w.apply(w.sync()), ", "); got != "delete HTTPRoute web" {
				t.Errorf("want the HTTPRoute gone then, got %s", got)
			}
		})
	})
	t.Run("to an HTTPRoute", func(t *testing.T) {
		inBothModes(t, webPair, func(t *testing.T, w *world) {
			w.route(0, map[int64]int64{1: 80, 2: 20})
			w.settle()
			change(t, w, webRoute)
			leads(t, w)
			if got := strings.Join(w.apply(w.sync()), ", "); got != "HTTPRoute web" {
				t.Errorf("want the HTTPRoute made and nothing dropped, got %s", got)
			}
			if got := w.apply(w.sync()); len(got) > 0 {
				t.Errorf("want both kept until a gateway has accepted it, got %s", got)
			}
			w.parents = `[{"parentRef":{"name":"gw","namespace":"infra"},"conditions":[{"type":"Accepted","status":"True","observedGeneration":1}]}]`
			if got := strings.Join(w.apply(w.sync()), ", "); got != "delete Ingress web, delete Ingress web-canary" {
				t.Errorf("want the Ingresses gone then, got %s", got)
			}
		})
	})
}

// Without a record nothing is decided, and everything stays as it is.
func TestLostRecordKeepsRoutes(t *testing.T) {
	for _, traffic := range []string{webRoute, webPair, webPlain, webBlue} {
		inBothModes(t, traffic, func(t *testing.T, w *world) {
			if w.record.Settings.Router == rollout.RouterSwitch {
				w.route(0, map[int64]int64{1: 100, 2: 0})
			} else {
				w.route(2, map[int64]int64{1: 80, 2: 20})
			}
			w.settle()
			w.record = nil
			if writes := w.apply(w.sync()); len(writes) > 0 {
				t.Errorf("%s: want nothing written, got %v", traffic, writes)
			}
		})
	}
}

// A record that is older than what a route was decided under is not acted on.
func TestRoutesShowAnOldRecord(t *testing.T) {
	for traffic, object := range map[string]string{webRoute: "HTTPRoute web", webPair: "Ingress web", webBlue: "Service web"} {
		w := newWorld(t, history.ServerSide, traffic)
		w.route(0, map[int64]int64{1: 100})
		w.settle()
		if object != "Service web" {
			delete(w.objects, "Service web") // It shows the same.
		}
		w.record.Counter = 3
		o, err := observe(w.request())
		if err != nil {
			t.Fatal(err)
		}
		err = o.checkStale(w.now)
		if want := "the record web-rollout is older than " + object + ": a cache is behind"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

// The decision changes with the weights and with nothing else.
func TestDecisionGoesWithWeights(t *testing.T) {
	inBothModes(t, webRoute, func(t *testing.T, w *world) {
		text := func() string {
			return apply.Text(w.objects["HTTPRoute web"], "metadata", "annotations", AnnotationDecision)
		}
		w.route(0, map[int64]int64{1: 80, 2: 20})
		w.settle()
		first := text()
		w.now = w.now.Add(time.Minute)
		w.record.Counter++
		w.traffic = strings.Replace(webRoute, "a.example.com", "b.example.com", 1)
		w.settle()
		if got := text(); first != got || first == "" {
			t.Errorf("want the decision kept with another host, got %q after %q", got, first)
		}
		w.route(0, map[int64]int64{1: 70, 2: 30})
		w.settle()
		if want, got := `{"counter":10,"time":"2026-11-30T12:01:00Z","attempt":1}`, text(); want != got {
			t.Errorf("want %s, got %s", want, got)
		}
	})
}

// Endpoints are counted by the Service that they belong to, each address once; only
// ready ones serve.
func TestEndpoints(t *testing.T) {
	slice := func(service, family, endpoints string) map[string]any {
		var list []any
		if err := json.Unmarshal([]byte(endpoints), &list); err != nil {
			t.Fatal(err)
		}
		return map[string]any{
			"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": family, "endpoints": list,
			"metadata": map[string]any{"name": service, "labels": map[string]any{LabelName: "web", "kubernetes.io/service-name": service}},
		}
	}
	w := newWorld(t, history.Dynamic, webRoute)
	for _, tt := range []struct {
		why    string
		slices []map[string]any
		want   map[int64]int64
	}{
		{"none", []map[string]any{}, map[int64]int64{}},
		{"ready, not said, not ready", []map[string]any{
			slice("web-"+hash(1), "IPv4", `[{"addresses":["10.0.0.1"],"conditions":{"ready":true}},{"addresses":["10.0.0.2"]},{"addresses":["10.0.0.3"],"conditions":{"ready":false}}]`),
		}, map[int64]int64{1: 2}},
		{"an address that moves between slices", []map[string]any{
			slice("web-"+hash(1), "IPv4", `[{"addresses":["10.0.0.1"]},{"addresses":["10.0.0.2"]}]`),
			slice("web-"+hash(1), "IPv4", `[{"addresses":["10.0.0.2"]},{"addresses":["10.0.0.3"]}]`),
		}, map[int64]int64{1: 3}},
		{"two families", []map[string]any{
			slice("web-"+hash(2), "IPv4", `[{"addresses":["10.0.0.1"]},{"addresses":["10.0.0.2"]}]`),
			slice("web-"+hash(2), "IPv6", `[{"addresses":["fd00::1"]},{"addresses":["fd00::2"]}]`),
		}, map[int64]int64{2: 2}},
		{"the root's are not a revision's", []map[string]any{slice("web", "IPv4", `[{"addresses":["10.0.0.1"]}]`)}, map[int64]int64{}},
		{"nothing ready", []map[string]any{slice("web-"+hash(2), "IPv4", `[]`)}, map[int64]int64{2: 0}},
	} {
		w.related = tt.slices
		if want, got := string(w.encode(tt.want)), string(w.encode(w.sync().facts.Traffic.Endpoints)); want != got {
			t.Errorf("%s: want %s, got %s", tt.why, want, got)
		}
	}
	w.related = nil
	if got := w.sync().facts.Traffic.Endpoints; len(got) > 0 {
		t.Errorf("want none without Services and slices, got %v", got)
	}
	w.settle()
	if want, got := `{"1":2,"2":2}`, string(w.encode(w.sync().facts.Traffic.Endpoints)); want != got {
		t.Errorf("want %s where slices are not looked at, got %s", want, got)
	}
}

func TestCustomize(t *testing.T) {
	for spec, want := range map[string]string{
		``:                                    `{"relatedResources":[]}`,
		`{"replicas":1}`:                      `{"relatedResources":[]}`,
		`{"traffic":null}`:                    `{"relatedResources":[]}`,
		`[]`:                                  `{"relatedResources":[]}`,
		`{"traffic":{"ports":[{"port":80}]}}`: `{"relatedResources":[{"apiVersion":"discovery.k8s.io/v1","resource":"endpointslices","namespace":"default","labelSelector":{"matchLabels":{"greyrelease.example.com/name":"web"}}}]}`,
	} {
		req := &CustomizeRequest{}
		req.Parent.Metadata.Name, req.Parent.Metadata.Namespace = "web", "default"
		req.Parent.Spec = json.RawMessage(spec)
		response, err := Customize(req)
		if err != nil {
			t.Fatal(err)
		}
		got, err := response.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if want != string(got) {
			t.Errorf("%s: want %s, got %s", spec, want, got)
		}
	}
}

// What users read about routes.
func TestRouteNotes(t *testing.T) {
	line := func(w *world) string {
		a := w.sync()
		return strings.Join(a.routeNotes(a.record), "; ")
	}
	w := newWorld(t, history.Dynamic, webRoute)
	w.route(0, map[int64]int64{1: 80, 2: 20})
	check := func(why, want string) {
		t.Helper()
		if got := line(w); want != got {
			t.Errorf("%s: want %q, got %q", why, want, got)
		}
	}
	check("just asked for", "")
	w.now = w.now.Add(2 * time.Second)
	check("not there", "waiting until HTTPRoute web carries weight 20 and is accepted")
	w.settle()
	check("not accepted", "waiting until HTTPRoute web, which carries weight 20, is accepted by a gateway")
	w.parents = `[{"parentRef":{"name":"gw","namespace":"infra"},"conditions":[{"type":"Accepted","status":"False","observedGeneration":1,"reason":"NotAllowedByListeners","message":"no"}]}]`
	check("refused", "HTTPRoute web is not accepted: NotAllowedByListeners: no")
	w.parents = strings.Replace(w.parents, "False", "True", 1)
	check("accepted", "")
	w.record.Stage, w.record.Stable = rollout.Complete, revisionOf(2)
	w.record.Route.Shares = []rollout.Share{{Revision: 1, Empty: noon.Add(time.Second)}, {Revision: 2, Weight: 100}}
	w.settle()
	w.parents = strings.Replace(w.parents, `Generation":1`, `Generation":9`, 1)
	check("the old version is kept", "1.0 (revision 1) is kept until 2026-11-30T12:00:31Z")
	w.record.Route.Shares[0].Free = true
	check("and leaves", "")

	w = newWorld(t, history.Dynamic, webPair)
	w.route(0, map[int64]int64{1: 80, 2: 20})
	w.now = w.now.Add(2 * time.Second)
	check("Ingresses", "waiting until the Ingresses of web carry weight 20")

	w = newWorld(t, history.Dynamic, webBlue)
	w.route(0, map[int64]int64{1: 100})
	w.settle()
	check("a preview", "the new version is at Service web-preview")
	w.route(0, map[int64]int64{1: 0, 2: 100})
	w.now = w.now.Add(2 * time.Second)
	check("a switch", "waiting until Service web selects 2.0 (revision 2); the new version is at Service web-preview")
}

// Without the experimental channel of the Gateway API there is no stickiness: the
// release goes on, and says so.
func TestStickinessThatIsDropped(t *testing.T) {
	w := newWorld(t, history.Dynamic, strings.Replace(webRoute, `"path"`, `"sticky":{"cookieName":"v"},"path"`, 1))
	w.route(0, map[int64]int64{1: 80, 2: 20})
	w.apply(w.sync())
	for _, rule := range apply.List(w.objects["HTTPRoute web"], "spec", "rules") {
		delete(rule.(map[string]any), "sessionPersistence")
	}
	w.parents = `[{"parentRef":{"name":"gw","namespace":"infra"},"conditions":[{"type":"Accepted","status":"True","observedGeneration":1}]}]`
	a := w.sync()
	const want = "HTTPRoute web keeps no sessionPersistence, so that no client is kept on its version: sticky needs the experimental channel of the Gateway API"
	if got := strings.Join(a.notes, "; "); want != got || !a.facts.Traffic.Placed {
		t.Errorf("want the route in place and %q, got placed %t and %q", want, a.facts.Traffic.Placed, got)
	}
}

// Objects of other people that Metacontroller hands over are kept and named.
func TestForeignRoutesAreKept(t *testing.T) {
	w := newWorld(t, history.Dynamic, webRoute)
	w.objects["Service other"] = map[string]any{"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": "other"}, "spec": map[string]any{"selector": map[string]any{"app": "x"}}}
	w.objects["HTTPRoute other"] = map[string]any{"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": map[string]any{"name": "other"}}
	a := w.sync()
	a.renderForeign()
	for _, kind := range []string{"Service", "HTTPRoute"} {
		if want := kind + " other is no part of this release: remove its label controller-uid and its ownerReference"; !slices.Contains(a.notes, want) || !a.has(kind) {
			t.Errorf("want %s other kept and %q, got %q", kind, want, a.notes)
		}
	}
}

func (a *answer) has(kind string) bool {
	return slices.ContainsFunc(a.children, func(c any) bool {
		s, ok := c.(stub)
		return ok && s.Kind == kind && s.Metadata.Name == "other"
	})
}
