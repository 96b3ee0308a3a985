package main

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestNeutral(t *testing.T) {
	for _, c := range []struct{ why, text, want string }{
		{"uids are numbered as they appear", "a: 11111111-2222-3333-4444-555555555555 b: 66666666-2222-3333-4444-555555555555 c: 11111111-2222-3333-4444-555555555555", "a: UID-1 b: UID-2 c: UID-1"},
		{"times", `a: "2026-11-30T12:00:00Z", b: 2026-11-30T12:00:00.123456Z, c: 2026-11-30 12:00:00 +0000 UTC, d: 2026-11-30`, `a: "TIME", b: TIME, c: TIME, d: 2026-11-30`},
		{"the namespace", "original-dyn-1-x/web", "NAMESPACE/web"},
		{"addresses", "dial tcp 127.0.0.1:4711: clusterIP: 10.96.3.4", "dial tcp 127.0.0.1:PORT: clusterIP: CLUSTER-IP"},
		{"resource versions and uids", "resourceVersion: \"123\"\nuid: 11111111-2222-3333-4444-555555555555", "resourceVersion: ANY\nuid: UID-1"},
		{"names of Go types", "object into Go struct field answer.children of type []x, array into Go value of type main.answer", "object into Go struct field TYPE.children of type []x, array into Go value of type TYPE"},
		{"structures of Go", `both: &main.rule{A:(*v1.X)(0xc000)}`, "both: STRUCT"},
		{"ends of time", "net/http: request canceled (Client.Timeout exceeded while awaiting headers)", "TIMEOUT"},
		{"numbers stay", "replicas: 3", "replicas: 3"},
	} {
		if got := neutral(c.text, "original-dyn-1-x"); got != c.want {
			t.Errorf("%s: want %q, got %q", c.why, c.want, got)
		}
	}
}

// put is an update of an object.
func put(rest int, body string) step {
	s := step{rest: rest}
	s.Verb, s.UserAgent, s.RequestURI, s.Status.Code = "update", "metacontroller/v0 (linux)", "/apis/x", 200
	s.Ref.Resource, s.Ref.Name = "things", "a"
	s.Body = json.RawMessage(body)
	return s
}

func status(rest int, body string) step {
	s := put(rest, body)
	s.Ref.Subresource = "status"
	return s
}

func failed(s step, code int, reason string) step {
	s.Status.Code, s.Status.Reason, s.Status.Message = code, reason, "no"
	return s
}

func TestSequence(t *testing.T) {
	applied := put(0, `{"a":1}`)
	applied.Verb, applied.RequestURI = "patch", "/apis/x?force=true&fieldManager=metacontroller&timeout=10s"
	for _, c := range []struct {
		why   string
		steps []step
		want  []string
	}{
		{"every content counts", []step{put(0, `{"a":1}`), put(0, `{"a":2}`), put(0, `{"a":1}`)},
			[]string{"update as metacontroller\na: 1\n", "update as metacontroller\na: 2\n", "update as metacontroller\na: 1\n"}},
		{"the same in a row is one", []step{put(0, `{"a":1}`), put(1, `{"a":1}`)}, []string{"update as metacontroller\na: 1\n"}},
		{"what is repeated from the server is dropped", []step{put(0, `{"metadata":{"name":"a","resourceVersion":"5","uid":"u","generation":3,"managedFields":[]},"status":{"x":1}}`)},
			[]string{"update as metacontroller\nmetadata:\n  name: a\n"}},
		{"of statuses the last before a rest counts", []step{status(0, `{"status":{"n":1},"spec":{}}`), put(0, `{"a":1}`), status(0, `{"status":{"n":2}}`), status(1, `{"status":{"n":3}}`)},
			[]string{"update as metacontroller\na: 1\n", "update status as metacontroller\nstatus:\n  \"n\": 2\n", "update status as metacontroller\nstatus:\n  \"n\": 3\n"}},
		{"no status counts of what is gone at rest", []step{{write: status(0, `{"status":{"n":1}}`).write, gone: true}, status(1, `{"status":{"n":2}}`)},
			[]string{"update status as metacontroller\nstatus:\n  \"n\": 2\n"}},
		{"a conflict is no write", []step{failed(put(0, `{"a":1}`), 409, "Conflict")}, nil},
		{"another refusal is one", []step{failed(put(0, `{"a":1}`), 409, "AlreadyExists"), failed(put(0, `{"a":1}`), 409, "AlreadyExists")},
			[]string{"update as metacontroller: 409 AlreadyExists: no\na: 1\n"}},
		{"the owner and the force of an apply count, its patience does not", []step{applied}, []string{"patch as metacontroller with fieldManager=metacontroller&force=true\na: 1\n"}},
		{"another uid is another write", []step{put(0, `{"o":"11111111-2222-3333-4444-555555555555"}`), put(0, `{"o":"66666666-2222-3333-4444-555555555555"}`)},
			[]string{"update as metacontroller\no: UID-1\n", "update as metacontroller\no: UID-2\n"}},
	} {
		got, err := sequence(c.steps, "ns")
		if err != nil {
			t.Errorf("%s: %v", c.why, err)
		}
		if w, g := strings.Join(c.want, "|"), strings.Join(got, "|"); g != w {
			t.Errorf("%s:\nwant %q\ngot  %q", c.why, w, g)
		}
	}
}

func TestDifferences(t *testing.T) {
	of := func(writes, end string) *told {
		return &told{writes: map[string][]string{"things a": {writes}}, end: map[string]string{"things a": end}}
	}
	for _, c := range []struct {
		why              string
		double, original []*told
		want             string // what the reports begin with
	}{
		{"the same", []*told{of("1", "x")}, []*told{of("1", "x")}, ""},
		{"other writes", []*told{of("1", "x")}, []*told{of("2", "x")}, "writes of things a"},
		{"another end", []*told{of("1", "x")}, []*told{of("1", "y")}, "in the end, things a"},
		{"something that only one has", []*told{{}}, []*told{of("1", "x")}, "writes of things a|in the end, things a"},
		{"the same at another telling", []*told{of("1", "x"), of("2", "x")}, []*told{of("3", "x"), of("1", "y")}, ""},
		{"never the same", []*told{of("1", "x"), of("2", "x")}, []*told{of("3", "x"), of("4", "x")}, "writes of things a"},
		{"told by one", []*told{of("1", "x")}, nil, "not told by both"},
	} {
		comparison := comparison{double: c.double, original: c.original}
		var got []string
		for _, d := range comparison.differences() {
			first, _, _ := strings.Cut(d, " (-")
			got = append(got, first)
		}
		if g := strings.Join(got, "|"); g != c.want {
			t.Errorf("%s: want %q, got %q", c.why, c.want, g)
		}
	}
}

func TestLineDiff(t *testing.T) {
	want := strings.Join([]string{"    ...", "      3", "      4", "      5", "    - 6", "    + six", "      7", "      8"}, "\n")
	if got := lineDiff("1\n2\n3\n4\n5\n6\n7\n8", "1\n2\n3\n4\n5\nsix\n7\n8"); got != want {
		t.Errorf("want\n%s\ngot\n%s", want, got)
	}
}

// TestNothingToCompareWith: without the original, that is an error and no success.
func TestNothingToCompareWith(t *testing.T) {
	t.Setenv("METACONTROLLER", "")
	err := compare(t.Context(), options{stories: mirrorStories})
	if want := "METACONTROLLER is not set to the path of the original: there is nothing to compare with"; err == nil || err.Error() != want {
		t.Errorf("want %q, got %v", want, err)
	}
}

// TestNamesOfStories: namespaces are made from them.
func TestNamesOfStories(t *testing.T) {
	o := options{}
	if err := o.choose("."); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, st := range o.stories {
		if seen[st.name] {
			t.Errorf("want one story %s, got two", st.name)
		}
		seen[st.name] = true
	}
	if err := o.choose("^none$"); err == nil {
		t.Error("want an error if there is no such story")
	}
}

func TestErrorsOfOneEvent(t *testing.T) {
	event := func(message string) string {
		return eventText(map[string]any{"type": "Warning", "reason": "SyncError", "message": message}, "ns")
	}
	if a, b := event("can't reconcile: [a is bad, b, or c, is worse]"), event("can't reconcile: [b, or c, is worse, a is bad]"); a != b {
		t.Errorf("want errors in any order to be the same, got %q and %q", a, b)
	}
	for _, other := range []string{"can't reconcile: [a is bad]", "can't reconcile: a is bad, b, or c, is worse", "can't delete: [a is bad, b, or c, is worse]"} {
		if event("can't reconcile: [a is bad, b, or c, is worse]") == event(other) {
			t.Errorf("want %q to differ", other)
		}
	}
}
