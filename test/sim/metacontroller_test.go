package sim

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"greyrelease.example.com/test/sim/apply"
)

// scripted is a hook that answers with what a test wants at the time.
type scripted struct {
	status   int
	retry    time.Duration
	children []string // YAML
	report   string   // status.message
	resync   float64

	customs int              // calls of the customize hook
	asked   []map[string]any // the requests
	times   []time.Time
}

func (h *scripted) sync(body []byte, now time.Time) (Reply, error) {
	request, err := apply.Decode(body)
	if err != nil {
		return Reply{}, err
	}
	h.asked = append(h.asked, request)
	h.times = append(h.times, now)
	if h.status != 0 {
		return Reply{Status: h.status, RetryAfter: h.retry, Body: []byte("no luck")}, nil
	}
	children := []any{}
	for _, text := range h.children {
		tree, err := Parse(text)
		if err != nil {
			return Reply{}, err
		}
		children = append(children, tree)
	}
	answer := map[string]any{"status": map[string]any{"message": h.report}, "children": children, "resyncAfterSeconds": h.resync}
	text, err := json.Marshal(answer)
	return Reply{Status: 200, Body: text}, err
}

// seen returns the names of the children of a kind in the last request.
func (h *scripted) seen(k *Kind) []string {
	var names []string
	for _, o := range apply.Object(h.asked[len(h.asked)-1], "children", k.GroupKey()) {
		names = append(names, apply.Text(o, "metadata", "name"))
	}
	slices.Sort(names)
	return names
}

const (
	parentYAML = `{apiVersion: greyrelease.example.com/v1, kind: GreyRelease, metadata: {name: web}, spec: {targetVersion: "1"}}`
	configYAML = `{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, data: {a: b}}`
)

// managed is a cluster with a parent that has settled.
func managed(t *testing.T, mode Mode, h *scripted) *Cluster {
	t.Helper()
	c := New(Options{Mode: mode}, h.sync)
	create(t, c, parentYAML)
	mustRun(t, c, time.Minute)
	return c
}

// written counts the writes of Metacontroller.
func written(c *Cluster) int {
	n := 0
	for count, times := range c.Server.Counts {
		if count.Who == manager && count.Verb != "get" {
			n += times
		}
	}
	return n
}

func bothModes(t *testing.T, test func(t *testing.T, mode Mode)) {
	for _, mode := range []Mode{Dynamic, ServerSide} {
		t.Run(string(mode), func(t *testing.T) { test(t, mode) })
	}
}

func TestChildrenAreCreatedUpdatedAndDeleted(t *testing.T) {
	bothModes(t, func(t *testing.T, mode Mode) {
		h := &scripted{children: []string{configYAML, deploymentYAML}, report: "one"}
		c := managed(t, mode, h)
		parent := c.Server.Get(Release("web"))
		config := c.Server.Get(ConfigMap("c"))
		if config == nil || !config.OwnedBy(parent.UID) || config.Label(uidLabel) != parent.UID {
			t.Fatalf("want an owned and labelled child, got %v", config)
		}
		if parent.Text("status", "message") != "one" || parent.Int("status", "observedGeneration") != 1 || parent.Int("spec", "replicas") != 1 {
			t.Errorf("want the status with the generation, and replicas by default, got %v", parent.Tree)
		}
		if got := h.seen(ConfigMaps); !slices.Equal(got, []string{"c"}) {
			t.Errorf("want c in the request, got %v", got)
		}

		idle := written(c)
		syncs := c.Metacontroller.Syncs
		mustRun(t, c, time.Hour)
		if written(c) != idle || c.Metacontroller.Syncs != syncs {
			t.Errorf("want rest, got %d writes and %d syncs", written(c)-idle, c.Metacontroller.Syncs-syncs)
		}
		if err := c.Annotate(Release("web"), "poke", "1"); err != nil {
			t.Fatal(err)
		}
		mustRun(t, c, time.Minute)
		if written(c) != idle || c.Metacontroller.Syncs != syncs+1 {
			t.Errorf("want one sync without a write, got %d writes and %d syncs", written(c)-idle, c.Metacontroller.Syncs-syncs)
		}

		h.children = []string{strings.Replace(configYAML, "a: b", "a: c", 1)}
		if err := c.Annotate(Release("web"), "poke", "2"); err != nil {
			t.Fatal(err)
		}
		mustRun(t, c, time.Minute)
		if got := c.Server.Get(ConfigMap("c")).Text("data", "a"); got != "c" {
			t.Errorf("want the child updated, got %q", got)
		}
		if c.Server.Get(Deployment("d")) != nil {
			t.Error("want the unlisted child deleted")
		}
	})
}

// A zero that the server drops is put again on every sync, in dynamic mode; in
// server-side mode the memory of what was applied hides it.
func TestDroppedZeroIsPutForEver(t *testing.T) {
	zero := strings.Replace(deploymentYAML, "replicas: 4", "replicas: 4\n  minReadySeconds: 0", 1)
	bothModes(t, func(t *testing.T, mode Mode) {
		h := &scripted{children: []string{zero}}
		c := managed(t, mode, h)
		before := written(c)
		for i := range 5 {
			if err := c.Annotate(Release("web"), "poke", fmt.Sprint(i)); err != nil {
				t.Fatal(err)
			}
			mustRun(t, c, time.Minute)
		}
		want := map[Mode]int{Dynamic: 5, ServerSide: 0}[mode]
		if got := written(c) - before; want != got {
			t.Errorf("want %d writes for 5 pokes, got %d", want, got)
		}
	})
}

// Ports 53/UDP and 53/TCP are 53/TCP twice from the second sync on, and refused
// because of their names; server-side mode has no such fault.
func TestEqualPortNumbers(t *testing.T) {
	ports := strings.Replace(deploymentYAML, `image: "nginx:1"`, `image: "nginx:1", ports: [{containerPort: 53, protocol: UDP, name: dns}, {containerPort: 53, protocol: TCP, name: tcp}]`, 1)
	bothModes(t, func(t *testing.T, mode Mode) {
		c := managed(t, mode, &scripted{children: []string{ports}})
		events := len(c.Metacontroller.Events)
		switch {
		case mode == ServerSide && events > 0:
			t.Errorf("want no error, got %v", c.Metacontroller.Events[0])
		case mode == Dynamic && (events == 0 || !strings.Contains(c.Metacontroller.Events[0].Message, `ports[1].name: Duplicate value: "tcp"`)):
			t.Errorf("want a duplicate port, got %v", c.Metacontroller.Events)
		}
	})
}

func TestStrangersInTheWay(t *testing.T) {
	bothModes(t, func(t *testing.T, mode Mode) {
		h := &scripted{}
		c := New(Options{Mode: mode}, h.sync)
		create(t, c, strings.Replace(configYAML, "a: b", "theirs: x", 1))
		h.children = []string{configYAML}
		create(t, c, parentYAML)
		mustRun(t, c, time.Minute)
		o := c.Server.Get(ConfigMap("c"))
		seized := o.OwnedBy(c.Server.Get(Release("web")).UID)
		if want := mode == ServerSide; seized != want || o.Text("data", "theirs") != "x" || len(c.Metacontroller.Events) > 0 {
			t.Errorf("want seized %v with their data and no event, got %v %v %v", want, seized, o.Tree, c.Metacontroller.Events)
		}
	})
}

func TestAdoptionAndRelease(t *testing.T) {
	bothModes(t, func(t *testing.T, mode Mode) {
		h := &scripted{children: []string{configYAML}}
		c := managed(t, mode, h)
		uid := c.Server.Get(Release("web")).UID
		label := func(v any) {
			t.Helper()
			if err := c.Edit(ConfigMap("c"), map[string]any{"metadata": map[string]any{"labels": map[string]any{uidLabel: v}}}); err != nil {
				t.Fatal(err)
			}
			mustRun(t, c, time.Minute)
		}
		label("other")
		released := c.Server.Get(ConfigMap("c"))
		// Server-side mode seizes what it asks for as soon as it has let it go.
		if want := mode == ServerSide; released.OwnedBy(uid) != want {
			t.Errorf("want owned %v, got %v", want, released.Tree["metadata"])
		}
		label(uid)
		if !c.Server.Get(ConfigMap("c")).OwnedBy(uid) {
			t.Error("want it adopted by its label")
		}
		if got := h.seen(ConfigMaps); !slices.Equal(got, []string{"c"}) {
			t.Errorf("want it in the request again, got %v", got)
		}
	})
}

func TestErrorsOfTheHook(t *testing.T) {
	h := &scripted{children: []string{configYAML}}
	c := managed(t, Dynamic, h)
	before := written(c)
	h.status, h.children = 500, nil
	if err := c.Annotate(Release("web"), "poke", "1"); err != nil {
		t.Fatal(err)
	}
	mustRun(t, c, time.Second)
	// 5 ms, 10 ms, 20 ms and so on: 1 + 7 calls in the first second.
	if n := len(c.Metacontroller.Events); n < 7 || n > 9 {
		t.Errorf("want about 8 events, got %d", n)
	}
	if got := c.Metacontroller.Events[0].Message; !strings.Contains(got, "unsupported status code: 500 body: no luck") {
		t.Errorf("want the body in the event, got %q", got)
	}
	if written(c) != before || c.Server.Get(ConfigMap("c")) == nil {
		t.Error("want nothing written")
	}

	h.status, h.retry = 429, 7*time.Second
	events := len(c.Metacontroller.Events)
	mustRun(t, c, 20*time.Minute)
	n := len(h.times)
	if got := h.times[n-1].Sub(h.times[n-2]); got != 7*time.Second {
		t.Errorf("want a retry after 7 s, got %v", got)
	}
	if len(c.Metacontroller.Events) != events || written(c) != before {
		t.Error("want neither events nor writes with 429")
	}
}

func TestTheEarliestResyncStands(t *testing.T) {
	h := &scripted{resync: 10}
	c := New(Options{}, h.sync)
	create(t, c, parentYAML)
	mustRun(t, c, 2*time.Second)
	h.resync = 60
	if err := c.Annotate(Release("web"), "poke", "1"); err != nil {
		t.Fatal(err)
	}
	mustRun(t, c, time.Second)
	n := len(h.times)
	mustRun(t, c, 10*time.Second)
	if len(h.times) != n+1 {
		t.Fatalf("want the sync after 10 s and no other, got %d", len(h.times)-n)
	}
	mustRun(t, c, 50*time.Second)
	if len(h.times) != n+1 {
		t.Errorf("want rest for a minute from then on, got %d syncs", len(h.times)-n-1)
	}
}

func TestCachesAreBehindAndNeverGoBack(t *testing.T) {
	h := &scripted{children: []string{configYAML}}
	c := managed(t, Dynamic, h)
	c.Metacontroller.Freeze(ConfigMaps, 30*time.Second)
	if err := c.Edit(ConfigMap("c"), map[string]any{"data": map[string]any{"hand": "1"}}); err != nil {
		t.Fatal(err)
	}
	n := len(h.times)
	mustRun(t, c, 20*time.Second)
	if len(h.times) != n {
		t.Error("want the edit unseen while the cache stands")
	}
	mustRun(t, c, 20*time.Second)
	shown := apply.Object(h.asked[len(h.asked)-1], "children", ConfigMaps.GroupKey(), "default/c")
	if len(h.times) == n || apply.Text(shown, "data", "hand") != "1" {
		t.Errorf("want the edit seen after that, got %v", shown)
	}

	// After a failover the list may be older; the watch catches up.
	c.Metacontroller.Restart(50 * time.Second)
	mustRun(t, c, 0)
	shown = apply.Object(h.asked[len(h.asked)-1], "children", ConfigMaps.GroupKey(), "default/c")
	if apply.Field(shown, "data", "hand") != nil {
		t.Errorf("want the state of before the edit, got %v", shown)
	}
	mustRun(t, c, time.Second)
	shown = apply.Object(h.asked[len(h.asked)-1], "children", ConfigMaps.GroupKey(), "default/c")
	if apply.Text(shown, "data", "hand") != "1" {
		t.Errorf("want it caught up, got %v", shown)
	}
}

// A restart in the middle of a sync leaves the rest of it unwritten.
func TestRestartInMidSync(t *testing.T) {
	h := &scripted{children: []string{configYAML, deploymentYAML}, report: "done"}
	c := New(Options{Writes: Lag{time.Second, time.Second + 1}}, h.sync)
	create(t, c, parentYAML)
	mustRun(t, c, 500*time.Millisecond)
	if c.Server.Get(ConfigMap("c")) == nil || c.Server.Get(Deployment("d")) != nil {
		t.Fatal("want one write of the sync done")
	}
	c.Metacontroller.hook = silent
	c.Metacontroller.Restart(0)
	mustRun(t, c, time.Minute)
	if c.Server.Get(Deployment("d")) != nil || c.Server.Get(Release("web")).Text("status", "message") != "" {
		t.Error("want the rest of the sync never written")
	}
}

func TestPlannedFaults(t *testing.T) {
	for _, test := range []struct {
		why     string
		f       Faults
		created bool
		events  bool
	}{
		{"lost before", Faults{Lost: 1}, false, true},
		{"lost after", Faults{Answered: 1}, true, true},
		{"no faults", Faults{}, true, false},
	} {
		t.Run(test.why, func(t *testing.T) {
			h := &scripted{children: []string{configYAML}}
			c := New(Options{}, h.sync)
			c.Metacontroller.Faults = test.f
			create(t, c, parentYAML)
			mustRun(t, c, time.Second)
			if got := c.Server.Get(ConfigMap("c")) != nil; test.created != got {
				t.Errorf("want created %v, got %v", test.created, got)
			}
			if got := len(c.Metacontroller.Events) > 0; test.events != got {
				t.Errorf("want an event %v, got %v", test.events, got)
			}
		})
	}
}

// A status that others keep writing is given up, and with it what went wrong with
// the children: no event, and no other try by itself.
func TestUnwritableStatusHidesErrors(t *testing.T) {
	for _, test := range []struct {
		f      Faults
		events bool
	}{{Faults{}, true}, {Faults{Conflict: 1}, false}} {
		h := &scripted{children: []string{`{apiVersion: apps/v1, kind: Deployment, metadata: {name: refused}, spec: {}}`}, report: "x"}
		c := New(Options{}, h.sync)
		c.Metacontroller.Faults = test.f
		create(t, c, parentYAML)
		mustRun(t, c, time.Second)
		if got := len(c.Metacontroller.Events) > 0; test.events != got {
			t.Errorf("%+v: want an event %v, got %v", test.f, test.events, c.Metacontroller.Events)
		}
		tries := 0
		for count, n := range c.Server.Counts {
			if count.Verb == "get" {
				tries += n
			}
		}
		if want := 4 * len(h.asked); !test.events && tries != want {
			t.Errorf("want 4 tries for each of %d syncs, got %d", len(h.asked), tries)
		}
	}
}

// The collection of an old parent's children wakes nobody.
func TestRecreatedParent(t *testing.T) {
	h := &scripted{children: []string{configYAML}}
	c := New(Options{Controllers: Lag{10 * time.Second, 10*time.Second + 1}}, h.sync)
	create(t, c, parentYAML)
	mustRun(t, c, time.Minute)
	if err := c.Delete(Release("web"), Background); err != nil {
		t.Fatal(err)
	}
	mustRun(t, c, time.Second)
	create(t, c, parentYAML)
	mustRun(t, c, 5*time.Second)
	n := len(h.times)
	mustRun(t, c, time.Hour)
	if c.Server.Get(ConfigMap("c")) != nil || len(h.times) != n {
		t.Errorf("want the child collected and nobody woken, got %d syncs", len(h.times)-n)
	}
	h.resync = 5
	if err := c.Annotate(Release("web"), "poke", "1"); err != nil {
		t.Fatal(err)
	}
	mustRun(t, c, time.Second)
	if o := c.Server.Get(ConfigMap("c")); o == nil || !o.OwnedBy(c.Server.Get(Release("web")).UID) {
		t.Error("want the child made for the new parent")
	}
}

func TestDeletionOfParents(t *testing.T) {
	for _, test := range []struct {
		propagation string
		kept        bool
	}{{Background, false}, {Foreground, false}, {Orphan, true}} {
		t.Run(test.propagation, func(t *testing.T) {
			h := &scripted{children: []string{configYAML, deploymentYAML}}
			c := managed(t, Dynamic, h)
			if err := c.Delete(Release("web"), test.propagation); err != nil {
				t.Fatal(err)
			}
			mustRun(t, c, time.Minute)
			if c.Server.Get(Release("web")) != nil {
				t.Error("want the parent gone")
			}
			d := c.Server.Get(Deployment("d"))
			if got := d != nil; test.kept != got {
				t.Fatalf("want the child kept %v, got %v", test.kept, got)
			}
			if d != nil && (d.Controller() != nil || d.Label(uidLabel) == "") {
				t.Errorf("want an orphan that still has the label, got %v", d.Tree["metadata"])
			}
		})
	}
}

func TestSwitchOfModes(t *testing.T) {
	h := &scripted{children: []string{configYAML}}
	c := managed(t, Dynamic, h)
	if c.Server.Get(ConfigMap("c")).Annotation(apply.LastApplied) == "" {
		t.Fatal("want the copy of dynamic mode")
	}
	c.Metacontroller.SetMode(ServerSide)
	mustRun(t, c, time.Minute)
	if got := c.Server.Get(ConfigMap("c")).Annotation(apply.LastApplied); got != "" {
		t.Errorf("want the copy removed, got %s", got)
	}
}

// The same seed gives the same story, line by line, and another seed another.
func TestSeeds(t *testing.T) {
	record := func(seed uint64) []string {
		h := &scripted{children: []string{configYAML, deploymentYAML}, resync: 3}
		c := New(Options{Seed: seed, Mode: ServerSide, Writes: Lag{Max: 100 * time.Millisecond}}, h.sync)
		c.Metacontroller.Faults = Faults{Lost: 0.2, Conflict: 0.2, Answered: 0.2}
		var lines []string
		c.Trace(func(line string) { lines = append(lines, line) })
		create(t, c, parentYAML)
		mustRun(t, c, time.Minute)
		c.LoseNode(1)
		mustRun(t, c, 10*time.Minute)
		return lines
	}
	first, again, other := record(7), record(7), record(8)
	if !slices.Equal(first, again) {
		t.Error("want the same seed to do the same")
	}
	if slices.Equal(first, other) {
		t.Error("want another seed to do something else")
	}
}
