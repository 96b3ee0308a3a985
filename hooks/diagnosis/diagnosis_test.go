package diagnosis

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// pod is a pod made so many seconds after noon, with a status in JSON.
func pod(t *testing.T, name string, seconds int, status string) Pod {
	t.Helper()
	p := Pod{Name: name, Created: noon.Add(time.Duration(seconds) * time.Second)}
	if err := json.Unmarshal([]byte(status), &p.Status); err != nil {
		t.Fatalf("%s: %v", status, err)
	}
	return p
}

// containers is a status with these of one container, and what else is given.
func container(fields string) string {
	return `{"containerStatuses":[{"name":"app",` + fields + `}]}`
}

const looping = `"restartCount":4,"state":{"waiting":{"reason":"CrashLoopBackOff","message":"back-off 40s restarting failed container=app pod=a_default(u)"}},` +
	`"lastState":{"terminated":{"exitCode":1,"reason":"Error","message":"starting\nno  database\n"}}`

// What is said of one pod in each state, in the words that users read.
func TestFindings(t *testing.T) {
	for _, tt := range []struct{ why, status, want string }{
		{"ready", container(`"ready":true,"restartCount":9,"state":{"running":{}},"lastState":{"terminated":{"exitCode":1}}`), ""},
		{"nothing known yet", `{"phase":"Pending"}`, ""},
		{"a crash loop", container(looping),
			`pod a, container app: CrashLoopBackOff, 4 restarts, exit code 1 (Error), it said "starting no database"`},
		{"the same loop, while the container runs again", container(`"restartCount":4,"state":{"running":{}},"lastState":{"terminated":{"exitCode":1,"reason":"Error","message":"no database"}}`),
			`pod a, container app: CrashLoopBackOff, 4 restarts, exit code 1 (Error), it said "no database"`},
		{"the same loop, while it runs for 9 minutes", container(`"restartCount":4,"state":{"running":{"startedAt":"2026-11-30T11:51:00Z"}},"lastState":{"terminated":{"exitCode":1,"reason":"Error"}}`),
			`pod a, container app: CrashLoopBackOff, 4 restarts, exit code 1 (Error)`},
		{"not ready long after it was restarted", container(`"restartCount":4,"state":{"running":{"startedAt":"2026-11-30T11:50:00Z"}},"lastState":{"terminated":{"exitCode":1,"reason":"Error"}}`),
			`(slow) pod a, container app: runs and is not ready`},
		{"the same loop, when it has just ended", container(`"restartCount":4,"state":{"terminated":{"exitCode":2,"reason":"Error"}},"lastState":{"terminated":{"exitCode":1,"reason":"Error"}}`),
			`pod a, container app: CrashLoopBackOff, 4 restarts, exit code 2 (Error)`},
		{"the first restart", container(`"restartCount":1,"state":{"waiting":{"reason":"CrashLoopBackOff"}},"lastState":{"terminated":{"exitCode":0,"reason":"Completed"}}`),
			`pod a, container app: CrashLoopBackOff, 1 restart, exit code 0 (Completed)`},
		{"out of memory", container(`"restartCount":2,"state":{"waiting":{"reason":"CrashLoopBackOff"}},"lastState":{"terminated":{"exitCode":137,"reason":"OOMKilled"}}`),
			`pod a, container app: CrashLoopBackOff, 2 restarts, exit code 137 (OOMKilled)`},
		{"a loop of which nothing more is known", container(`"restartCount":6,"state":{"waiting":{"reason":"CrashLoopBackOff"}}`),
			`pod a, container app: CrashLoopBackOff, 5+ restarts`},
		{"an image that is not there", container(`"state":{"waiting":{"reason":"ErrImagePull","message":"rpc error: code = NotFound desc = no such manifest"}}`),
			`pod a, container app: ImagePullBackOff, "rpc error: code = NotFound desc = no such manifest"`},
		{"the same image a moment later", container(`"state":{"waiting":{"reason":"ImagePullBackOff","message":"Back-off pulling image \"nginx:9\": ErrImagePull: rpc error: code = NotFound desc = no such manifest"}}`),
			`pod a, container app: ImagePullBackOff, "rpc error: code = NotFound desc = no such manifest"`},
		{"as older kubelets say it", container(`"state":{"waiting":{"reason":"ImagePullBackOff","message":"Back-off pulling image \"nginx:9\""}}`),
			`pod a, container app: ImagePullBackOff, ` + "`Back-off pulling image \"nginx:9\"`"},
		{"a name that is none", container(`"state":{"waiting":{"reason":"InvalidImageName","message":"couldn't parse image"}}`),
			`pod a, container app: InvalidImageName, "couldn't parse image"`},
		{"a ConfigMap that is not there", container(`"state":{"waiting":{"reason":"CreateContainerConfigError","message":"configmap \"web\" not found"}}`),
			`pod a, container app: CreateContainerConfigError, ` + "`configmap \"web\" not found`"},
		{"a reason that no version knew when this was written", container(`"state":{"waiting":{"reason":"SomethingNew"}}`),
			`pod a, container app: SomethingNew`},
		{"no room", `{"conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable","message":"0/3 nodes are available: 3 Insufficient cpu."}]}`,
			`pod a: Unschedulable, "0/3 nodes are available: 3 Insufficient cpu."`},
		{"an init container that crashes", `{"initContainerStatuses":[{"name":"migrate","restartCount":3,"state":{"waiting":{"reason":"CrashLoopBackOff"}},"lastState":{"terminated":{"exitCode":1,"message":"locked"}}}],` +
			`"containerStatuses":[{"name":"app","state":{"waiting":{"reason":"PodInitializing"}}}]}`,
			`pod a, init container migrate: CrashLoopBackOff, 3 restarts, exit code 1, it said "locked"`},
		{"an init container that has done its work at the fifth try", `{"initContainerStatuses":[{"name":"migrate","ready":true,"restartCount":5,"state":{"terminated":{"exitCode":0}},"lastState":{"terminated":{"exitCode":1}}}],` +
			`"containerStatuses":[{"name":"app","ready":true,"state":{"running":{}}}]}`, ""},
		{"a sidecar that crashes beside an app that is well", `{"initContainerStatuses":[{"name":"proxy","restartCount":3,"state":{"waiting":{"reason":"CrashLoopBackOff"}}}],` +
			`"containerStatuses":[{"name":"app","ready":true,"state":{"running":{}}}]}`,
			`pod a, init container proxy: CrashLoopBackOff, 3 restarts`},
		{"starting", container(`"state":{"waiting":{"reason":"ContainerCreating"}}`), `(slow) pod a, container app: ContainerCreating`},
		{"not ready", container(`"state":{"running":{}}`), `(slow) pod a, container app: runs and is not ready`},
		{"ended once, about to begin again", container(`"state":{"terminated":{"exitCode":1,"reason":"Error","message":"no database"}}`),
			`(slow) pod a, container app: Error, exit code 1, it said "no database"`},
		{"being evicted", `{"conditions":[{"type":"DisruptionTarget","status":"True","reason":"EvictionByEvictionAPI"}],"containerStatuses":[{"name":"app",` + looping + `}]}`, ""},
		{"evicted", `{"phase":"Failed","reason":"Evicted","containerStatuses":[{"name":"app",` + looping + `}]}`, ""},
		{"on a node that is lost", `{"reason":"NodeLost","containerStatuses":[{"name":"app",` + looping + `}]}`, ""},
		{"not ready because its node is lost, which the container does not know", `{"conditions":[{"type":"Ready","status":"False"}],"containerStatuses":[{"name":"app","ready":true,"restartCount":7,"state":{"running":{}}}]}`, ""},
	} {
		got := ""
		if f := Of([]Pod{pod(t, "a", 0, tt.status)}, time.Time{}, noon).Worst; f != nil {
			got = f.String()
			if f.Kind == Slow {
				got = "(slow) " + got
			}
		}
		if tt.want != got {
			t.Errorf("%s: want\n%s\ngot\n%s", tt.why, tt.want, got)
		}
	}
}

// A pod that is being deleted is nobody's worry.
func TestDeletingPodsArePassedOver(t *testing.T) {
	p := pod(t, "a", 0, container(looping))
	p.Deleting = true
	if r := Of([]Pod{p}, time.Time{}, noon); !reflect.DeepEqual(r, Report{}) {
		t.Errorf("want nothing, got %+v", r)
	}
}

// A crash loop counts only while the container waits for its next start: a container
// that has been restarted five times within a week and runs is in no loop.
func TestLoop(t *testing.T) {
	runs := container(`"restartCount":5,"state":{"running":{}},"lastState":{"terminated":{"exitCode":1}}`)
	few := container(`"restartCount":2,"state":{"waiting":{"reason":"CrashLoopBackOff"}}`)
	many := container(`"restartCount":7,"state":{"waiting":{"reason":"CrashLoopBackOff"}}`)
	for _, tt := range []struct {
		why             string
		pods            []Pod
		since           int // seconds after noon
		loop            string
		looping, looked int64
	}{
		{"none", nil, 0, "", 0, 0},
		{"it runs", []Pod{pod(t, "a", 0, runs)}, 0, "", 0, 1},
		{"the most restarts", []Pod{pod(t, "a", 0, few), pod(t, "b", 1, many), pod(t, "c", 2, runs)}, 0, "pod b, container app: CrashLoopBackOff, 7 restarts", 2, 3},
		{"pods of an earlier attempt", []Pod{pod(t, "a", 0, few), pod(t, "b", 1, many)}, 2, "", 0, 0},
		{"one of an earlier attempt beside one of this", []Pod{pod(t, "a", 5, few), pod(t, "b", 1, many)}, 5, "pod a, container app: CrashLoopBackOff, 2 restarts", 1, 1},
		{"a pod without a time is taken for an old one", []Pod{{Name: "a", Status: pod(t, "a", 0, many).Status}}, 0, "", 0, 0},
	} {
		r := Of(tt.pods, noon.Add(time.Duration(tt.since)*time.Second), noon)
		got := ""
		if r.Loop != nil {
			got = r.Loop.Exact()
		}
		if got != tt.loop || r.Looping != tt.looping || r.Looked != tt.looked {
			t.Errorf("%s: want %q, %d of %d, got %q, %d of %d", tt.why, tt.loop, tt.looping, tt.looked, got, r.Looping, r.Looked)
		}
	}
}

// The same pods in another order give the same report, and the worst of them is told.
func TestOrderDoesNotMatter(t *testing.T) {
	pods := []Pod{
		pod(t, "slow", 0, container(`"state":{"running":{}}`)),
		pod(t, "placed", 1, `{"conditions":[{"type":"PodScheduled","status":"False","message":"no room"}]}`),
		pod(t, "config", 2, container(`"state":{"waiting":{"reason":"CreateContainerError"}}`)),
		pod(t, "image", 3, container(`"state":{"waiting":{"reason":"ErrImagePull"}}`)),
		pod(t, "crash-b", 5, container(looping)),
		pod(t, "crash-a", 5, container(looping)),
		pod(t, "crash-c", 6, container(looping)),
	}
	want := Of(pods, noon, noon)
	if want.Worst.Pod != "crash-a" || want.Loop.Pod != "crash-a" || want.Looping != 3 {
		t.Fatalf("want crash-a, the oldest of the worst and first by name, got %+v", want)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		r.Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
		if got := Of(pods, noon, noon); !reflect.DeepEqual(want, got) {
			t.Fatalf("want %+v, got %+v for %+v", want, got, pods)
		}
	}
	for _, name := range []string{"image", "config", "placed", "slow"} {
		for i := len(pods) - 1; i >= 0; i-- {
			if strings.HasPrefix(pods[i].Name, want.Worst.Pod[:4]) {
				pods = append(pods[:i], pods[i+1:]...)
			}
		}
		if want = Of(pods, noon, noon); want.Worst.Pod != name {
			t.Fatalf("want %s next, got %+v", name, want.Worst)
		}
	}
}

// A container that crashes for a day, 300 times, changes its text 9 times.
func TestRestartsChangeSeldom(t *testing.T) {
	var texts []string
	for n := range int64(300) {
		if text := rounded(n + 1); len(texts) == 0 || texts[len(texts)-1] != text {
			texts = append(texts, text)
		}
	}
	if want := "1 2 3 4 5+ 10+ 20+ 50+ 100+ 200+"; strings.Join(texts, " ") != want {
		t.Errorf("want %s, got %s", want, strings.Join(texts, " "))
	}
	for n, want := range map[int64]string{1 << 62: "2000000000000000000+", 999: "500+", 1000: "1000+"} {
		if got := rounded(n); want != got {
			t.Errorf("%d: want %s, got %s", n, want, got)
		}
	}
}

// A text from elsewhere is one line of at most 200 bytes and some dots, whatever it is.
func TestTextIsBounded(t *testing.T) {
	for _, tt := range []struct{ why, text, head, tail string }{
		{"empty", "", "", ""},
		{"short", " a\n\tb ", "a b", "a b"},
		{"escape codes", "\x1b[31mred\x1b[0m\x00", "[31mred [0m", "[31mred [0m"},
		{"long", strings.Repeat("a", 150) + strings.Repeat("b", 150), strings.Repeat("a", 150) + strings.Repeat("b", 50) + "...", "..." + strings.Repeat("a", 50) + strings.Repeat("b", 150)},
		{"very long", "begin " + strings.Repeat("x ", 1<<20) + "end", "", ""},
		{"quotes and escapes", `say "no" \\ <b>`, `say "no" \\ <b>`, `say "no" \\ <b>`},
		{"long because of its escapes alone", strings.Repeat("\x01", 390) + "é", "é", "é"},
		{"escapes all over", strings.Repeat("\n\"", 300), strings.Repeat("\" ", 100) + "...", "..." + strings.Repeat(" \"", 100)},
		{"outside the first plane", strings.Repeat("\U0001F600", 200), strings.Repeat("\U0001F600", 50) + "...", "..." + strings.Repeat("\U0001F600", 50)},
		{"cut within a character", strings.Repeat("ä", 300), strings.Repeat("ä", 100) + "...", "..." + strings.Repeat("ä", 100)},
	} {
		encoded, err := json.Marshal(tt.text)
		if err != nil {
			t.Fatal(err)
		}
		var got Text
		if err := json.Unmarshal(encoded, &got); err != nil {
			t.Fatal(err)
		}
		if len(got.Head) > 210 || len(got.Tail) > 210 {
			t.Errorf("%s: want at most 210 bytes, got %d and %d", tt.why, len(got.Head), len(got.Tail))
		}
		if tt.why != "very long" && (got.Head != tt.head || got.Tail != tt.tail) {
			t.Errorf("%s: want\n%q %q\ngot\n%q %q", tt.why, tt.head, tt.tail, got.Head, got.Tail)
		}
		if tt.why == "very long" && (!strings.HasPrefix(got.Head, "begin x") || !strings.HasSuffix(got.Tail, "x end")) {
			t.Errorf("%s: want the beginning and the end, got %q %q", tt.why, got.Head, got.Tail)
		}
	}
}
