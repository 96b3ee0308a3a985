package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"greyrelease.example.com/hooks/greyrelease"
	"greyrelease.example.com/hooks/history"
)

// Every fixture is decided the same after it was redacted: phase, message, replicas,
// names and the time to come again.
func TestRedactedRequestsAreDecidedTheSame(t *testing.T) {
	names, err := filepath.Glob("../test/fixtures/*.answer.json")
	if err != nil || len(names) < 100 {
		t.Fatalf("want at least 100 fixtures, got %d, %v", len(names), err)
	}
	r := &redactor{key: []byte("key")}
	renamed := 0
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var fixture struct {
			Hook string
			Now  time.Time
		}
		if err := json.Unmarshal(text, &fixture); err != nil {
			t.Fatal(err)
		}
		request, err := os.ReadFile(strings.Replace(name, ".answer.", ".request.", 1))
		if err != nil {
			t.Fatal(err)
		}
		// Something to redact in every template of the request and of its children.
		for _, seed := range []string{"", `"env":[{"name":"A","value":"secret-a"},{"name":"B","value":"secret-b"}],"args":["--x=secret-c"],`} {
			planted, ok := plant(t, request, seed)
			if !ok {
				continue
			}
			redacted, names, err := r.redact(planted)
			if err != nil {
				// What is no JSON, or could be read in two ways, is not kept.
				if !strings.Contains(name, "bad-request") && !strings.Contains(name, "duplicate") {
					t.Errorf("%s: want it redacted, got %v", name, err)
				}
				continue
			}
			renamed += len(names)
			if bytes.Contains(redacted, []byte("secret-")) {
				t.Errorf("%s: want nothing secret left, got %s", name, redacted)
			}
			hook := strings.TrimPrefix(fixture.Hook, "/")
			plain := &recorded{Hook: hook, Now: fixture.Now, Request: planted}
			want, got := again(plain), again(&recorded{Hook: hook, Now: fixture.Now, Request: redacted, Renamed: names})
			if seed != "" && strings.Contains(name, "invalid-too-big") {
				// It tells a size, and a placeholder is longer than a short value.
				want.Message, got.Message = "", ""
			}
			if !reflect.DeepEqual(want, got) {
				t.Errorf("%s: want\n%s\ngot\n%s", name, compact(want), compact(got))
			}
		}
	}
	if renamed < 100 {
		t.Errorf("want at least 100 revisions with other names, got %d", renamed)
	}
}

// plant puts fields into each container whose image is nginx, wherever it stands, and
// gives the revisions the names that they then have. It says whether it could.
func plant(t *testing.T, request []byte, fields string) ([]byte, bool) {
	t.Helper()
	if fields == "" {
		return request, true
	}
	var tree map[string]any
	if err := decodeNumbers(request, &tree); err != nil {
		return nil, false
	}
	var more map[string]any
	if err := json.Unmarshal([]byte("{"+strings.TrimSuffix(fields, ",")+"}"), &more); err != nil {
		t.Fatal(err)
	}
	names := map[string]string{}
	spec := func(value any) string { return hashOf(value) }
	parent, _ := tree["parent"].(map[string]any)
	before := spec(parent["spec"])
	addTo(tree, more)
	names[before] = spec(parent["spec"])
	children, _ := tree["children"].(map[string]any)
	var holders []any
	for _, kind := range []string{"ConfigMap.v1", "Secret.v1"} {
		group, _ := children[kind].(map[string]any)
		holders = append(holders, slices.Collect(maps.Values(group))...)
	}
	for _, object := range holders {
		object, _ := object.(map[string]any)
		data, _ := object["data"].(map[string]any)
		secret := object["kind"] == "Secret"
		for _, key := range []string{"spec.json", "template.json"} {
			text, ok := data[key].(string)
			if !ok {
				continue
			}
			if plain, err := base64.StdEncoding.DecodeString(text); secret && err == nil {
				text = string(plain)
			}
			var inner any
			if err := decodeNumbers([]byte(text), &inner); err != nil {
				return nil, false
			}
			was := spec(inner)
			addTo(inner, more)
			out, err := encodeCanonical(inner)
			if err != nil {
				return nil, false
			}
			data[key] = encodedIf(secret, out)
			if key == "spec.json" {
				names[was] = spec(inner)
			}
		}
	}
	text, err := encodePlain(tree)
	if err != nil {
		t.Fatal(err)
	}
	var pairs []string
	for was, is := range names {
		if was != "" && is != "" {
			pairs = append(pairs, was, is)
		}
	}
	return []byte(strings.NewReplacer(pairs...).Replace(string(text))), true
}

func addTo(value any, more map[string]any) {
	switch value := value.(type) {
	case []any:
		for _, element := range value {
			addTo(element, more)
		}
	case map[string]any:
		for _, member := range value {
			addTo(member, more)
		}
		if _, ok := value["image"].(string); ok && value["name"] != nil {
			for key, member := range more {
				value[key] = member
			}
		}
	}
}

// What is equal has equal placeholders, in whatever form it comes, and what is
// different has different ones.
func TestRedact(t *testing.T) {
	r := &redactor{key: []byte("key")}
	template := func(password string) string {
		return `{"spec":{"containers":[{"name":"a","image":"a","command":["sh"],"args":["--token","topsecret"],"env":[{"name":"P","value":"` + password +
			`"},{"name":"EMPTY","value":""},{"name":"REF","valueFrom":{"secretKeyRef":{"name":"s","key":"k"}}}],"livenessProbe":{"httpGet":{"path":"/","httpHeaders":[{"name":"Authorization","value":"topsecret"}]},"exec":{"command":["topsecret"]}}}]}}`
	}
	specOf := func(password string) string { return `{"targetVersion":"1","template":` + template(password) + `}` }
	content, err := history.IdentifySpec([]byte(specOf("topsecret")))
	if err != nil {
		t.Fatal(err)
	}
	canonical, err := history.Canonical([]byte(specOf("topsecret")))
	if err != nil {
		t.Fatal(err)
	}
	quoted, err := json.Marshal(string(canonical))
	if err != nil {
		t.Fatal(err)
	}
	request := `{"parent":{"metadata":{"name":"web","annotations":{"kubectl.kubernetes.io/last-applied-configuration":` + string(quoted) + `,"other":"kept"}},"spec":` + specOf("topsecret") + `},` +
		`"children":{"ConfigMap.v1":{"web-rev-1":{"kind":"ConfigMap","metadata":{"name":"web-rev-1","labels":{"greyrelease.example.com/name":"web","greyrelease.example.com/revision":"` + content.Hash + `"}},"data":{"spec.json":` + string(quoted) + `},"binaryData":{"x":"dG9wc2VjcmV0"}},` +
		`"odd":{"kind":"ConfigMap","metadata":{"name":"odd"},"data":{"x":"topsecret"}}},` +
		`"Deployment.apps/v1":{"d":{"kind":"Deployment","metadata":{"name":"web-` + content.Hash + `","managedFields":[{"manager":"m","fieldsV1":{"f:x":{}}}]},"spec":{"replicas":12345678901234567890,"template":` + template("othersecret") + `}}}}}`
	text, renamed, err := r.redact([]byte(request))
	if err != nil {
		t.Fatal(err)
	}
	for _, gone := range []string{"topsecret", "dG9wc2VjcmV0", "othersecret", content.Hash, "fieldsV1", "--token"} {
		if bytes.Contains(text, []byte(gone)) {
			t.Errorf("want no %s, got %s", gone, text)
		}
	}
	for _, kept := range []string{`"other":"kept"`, "secretKeyRef", `"value":""`, "12345678901234567890", r.placeholder("topsecret"), r.placeholder("othersecret")} {
		if !bytes.Contains(text, []byte(kept)) {
			t.Errorf("want %s kept, got %s", kept, text)
		}
	}
	if len(renamed) != 1 || slices.Collect(maps.Values(renamed))[0] != content.Hash {
		t.Errorf("want the revision %s with another name, got %v", content.Hash, renamed)
	}
	for name := range renamed {
		if n := bytes.Count(text, []byte(name)); n != 2 {
			t.Errorf("want the new name in the label and in the Deployment's name, got %d in %s", n, text)
		}
	}
	if a, b := r.placeholder("a"), (&redactor{key: []byte("other")}).placeholder("a"); a == b {
		t.Error("want placeholders that tell nothing without the key")
	}
	if long := strings.Repeat("x", 1000); len(r.placeholder(long)) != len(long) {
		t.Error("want a placeholder as long as what was there")
	}
}

// Snapshots are redacted in ConfigMaps and Secrets, packed or not, and in the copies of
// them that dynamic apply keeps in annotations.
func TestRedactSnapshots(t *testing.T) {
	r := &redactor{key: []byte("key")}
	for _, kind := range []history.Kind{history.ConfigMap, history.Secret} {
		for _, padding := range []int{0, 200 << 10} {
			spec := `{"targetVersion":"1","template":{"metadata":{"annotations":{"long":"` + strings.Repeat("x", padding) + `"}},"spec":{"containers":[{"name":"a","image":"a","env":[{"name":"P","value":"topsecret"}]}]}}}`
			content, err := history.IdentifySpec([]byte(spec))
			if err != nil {
				t.Fatal(err)
			}
			template := strings.Replace(spec[len(`{"targetVersion":"1","template":`):len(spec)-1], `"metadata":{`, `"metadata":{"labels":{"greyrelease.example.com/revision":"`+content.Hash+`"},`, 1)
			snapshot, err := history.NewSnapshot(history.Draft{
				Kind: kind, Name: "web-rev-1", Number: 1, Content: content, Labels: map[string]string{greyrelease.LabelName: "web"},
				Spec: json.RawMessage(spec), Template: json.RawMessage(template),
			}, history.Dynamic)
			if err != nil {
				t.Fatal(err)
			}
			applied, err := json.Marshal(snapshot)
			if err != nil {
				t.Fatal(err)
			}
			snapshot.Metadata.Annotations["metacontroller.k8s.io/last-applied-configuration"] = string(applied)
			child, err := json.Marshal(snapshot)
			if err != nil {
				t.Fatal(err)
			}
			request := `{"parent":{"metadata":{"name":"web"},"spec":` + spec + `},"children":{"` + string(kind) + `.v1":{"s":` + string(child) + `}}}`
			text, renamed, err := r.redact([]byte(request))
			if err != nil {
				t.Fatal(err)
			}
			var redacted struct {
				Children map[string]map[string]struct {
					Metadata struct {
						Labels, Annotations map[string]string
					}
					Data, BinaryData json.RawMessage
				}
			}
			if err := json.Unmarshal(text, &redacted); err != nil {
				t.Fatal(err)
			}
			redactedChild := redacted.Children[string(kind)+".v1"]["s"]
			var copied struct{ Data, BinaryData json.RawMessage }
			if err := json.Unmarshal([]byte(redactedChild.Metadata.Annotations["metacontroller.k8s.io/last-applied-configuration"]), &copied); err != nil {
				t.Fatal(err)
			}
			for where, data := range map[string][2]json.RawMessage{"object": {redactedChild.Data, redactedChild.BinaryData}, "copy": {copied.Data, copied.BinaryData}} {
				s := history.Read([]history.Object{{Kind: kind, Name: "web-rev-1", Labels: redactedChild.Metadata.Labels, Data: data[0], BinaryData: data[1]}})
				if len(s) != 1 {
					t.Fatalf("%s in %s: want a snapshot, got %s", where, kind, text[:min(len(text), 2000)])
				}
				kept, err := s[0].Spec()
				if err != nil || bytes.Contains(kept, []byte("topsecret")) || !bytes.Contains(kept, []byte(r.placeholder("topsecret"))) {
					t.Errorf("%s in %s of %d bytes: want a placeholder, got %.300s, %v", where, kind, padding, kept, err)
				}
				again, err := s[0].Template()
				if err != nil || bytes.Contains(again.Text, []byte("topsecret")) {
					t.Errorf("%s in %s of %d bytes: want a placeholder in the template, got %.300s, %v", where, kind, padding, again.Text, err)
				}
			}
			if len(renamed) != 1 || bytes.Contains(text, []byte("topsecret")) {
				t.Errorf("%s of %d bytes: want one other name, got %v", kind, padding, renamed)
			}
		}
	}
	foreign := `{"parent":{"metadata":{"name":"web"},"spec":{}},"children":{"Secret.v1":{"s":{"kind":"Secret","metadata":{"name":"s","annotations":{"metacontroller.k8s.io/last-applied-configuration":"{\"kind\":\"Secret\",\"stringData\":{\"a\":\"topsecret\"},\"data\":{\"b\":\"dG9wc2VjcmV0\"}}"}},"data":{"b":"dG9wc2VjcmV0"}}}}}`
	if text, _, err := r.redact([]byte(foreign)); err != nil || bytes.Contains(text, []byte("topsecret")) || bytes.Contains(text, []byte("dG9wc2VjcmV0")) {
		t.Errorf("want nothing left of a Secret of somebody else, got %s, %v", text, err)
	}
}

// startRecording is a service that records.
func startRecording(t *testing.T, dir string, size string) *fixture {
	t.Helper()
	args := append([]string{"--record-dir=" + dir, "--record-size=" + size}, slowMachine...)
	f := start(t, newHook(nil), args...)
	c, err := parseConfig(args, lookupIn(nil))
	if err != nil {
		t.Fatal(err)
	}
	if f.recorder, err = newRecorder(c, build{"v1", "abc", "go1"}, slog.New(slog.NewJSONHandler(f.logs, nil))); err != nil {
		t.Fatal(err)
	}
	return f
}

// A story that was recorded is told again from the files alone, with its reasons.
func TestReplay(t *testing.T) {
	dir := t.TempDir()
	f := startRecording(t, dir, "10Mi")
	for _, name := range []string{"pending-first-request", "progressing", "deadline-exceeded", "approval-timed-out", "newer-record"} {
		request, err := os.ReadFile("../test/fixtures/" + name + ".request.json")
		if err != nil {
			t.Fatal(err)
		}
		f.post(t, string(request))
		f.post(t, string(request))
	}
	f.post(t, release(strings.Replace(plainSpec, `"image":"a"`, `"image":"a","env":[{"name":"P","value":"topsecret"}]`, 1), "", ""))
	f.post(t, "no JSON, and topsecret")
	f.do(t, "POST", "/customize", nil, strings.NewReader(release(plainSpec, "", "")))
	eventually(t, "all calls recorded", func() bool { return strings.Count(recordedText(t, dir), "\n") == 13 })
	if text := recordedText(t, dir); strings.Contains(text, "topsecret") {
		t.Errorf("want nothing secret in the files, got %s", text)
	}
	paths, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	if code := run(append([]string{"replay"}, paths...), lookupIn(nil), &out, &errs); code != 0 || errs.Len() > 0 {
		t.Errorf("want 0, got %d: %s%s", code, out.String(), errs.String())
	}
	checkGolden(t, "testdata/replay.golden", out.String())

	// Another decision than the one that was recorded is told.
	text := strings.Replace(recordedText(t, dir), `"phase":"Pending"`, `"phase":"Healthy"`, 1)
	changed := filepath.Join(t.TempDir(), "changed.jsonl")
	if err := os.WriteFile(changed, []byte(text+`{"format":1,"cut off`), 0o600); err != nil {
		t.Fatal(err)
	}
	out.Reset()
	if code := run([]string{"replay", changed}, lookupIn(nil), &out, &errs); code != 3 || !strings.Contains(out.String(), "    differs from what v1 abc decided: ") {
		t.Errorf("want 3 and what differs, got %d: %s", code, out.String())
	}
}

func recordedText(t *testing.T, dir string) string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}

func TestReplayRefuses(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	later, broken := write("later", `{"format":99}`+"\n"), write("broken", "{\n")
	for _, row := range []struct {
		args []string
		code int
		want string
	}{
		{nil, 2, replayUsage},
		{[]string{"--help"}, 2, replayUsage},
		{[]string{filepath.Join(dir, "gone")}, 1, "greyrelease: cannot read recorded calls: open " + filepath.Join(dir, "gone") + ": no such file or directory\n"},
		{[]string{later}, 1, "greyrelease: cannot read call 1 of " + later + ": it has format 99, this version reads 1\n"},
		{[]string{broken}, 1, "greyrelease: cannot read call 1 of " + broken + ": unexpected end of JSON input\n"},
	} {
		var errs bytes.Buffer
		if code := run(append([]string{"replay"}, row.args...), lookupIn(nil), io.Discard, &errs); row.code != code || row.want != errs.String() {
			t.Errorf("%v: want %d %s, got %d %s", row.args, row.code, row.want, code, errs.String())
		}
	}
}

// The files stay within their limit, those of earlier processes too, and the newest
// calls are in them.
func TestRecordedCallsAreBounded(t *testing.T) {
	dir := t.TempDir()
	const most = 1 << 20
	padding := `,"x":"` + strings.Repeat("y", 20_000) + `"`
	for process := range 3 {
		f := startRecording(t, dir, fmt.Sprint(most))
		for i := range 60 {
			body := strings.Replace(release(plainSpec, "", padding), `"uid":"u"`, fmt.Sprintf(`"uid":"call-%d-%d"`, process, i), 1)
			if got := f.post(t, body); got.code != 200 {
				t.Fatalf("want 200, got %d %s", got.code, got.body)
			}
		}
		last := fmt.Sprintf("call-%d-59", process)
		eventually(t, last+" recorded", func() bool { return strings.Contains(recordedText(t, dir), last) })
		if n := len(recordedText(t, dir)); n > most {
			t.Errorf("want at most %d bytes, got %d", most, n)
		}
		if err := f.recorder.file.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if text := recordedText(t, dir); strings.Contains(text, "call-0-0\"") || !strings.Contains(text, "call-2-30\"") {
		t.Error("want the oldest calls gone and the newest kept")
	}
}

// A folder that cannot be written to costs no call.
func TestRecordingNeverFailsACall(t *testing.T) {
	f := startRecording(t, t.TempDir(), "1Mi")
	if err := f.recorder.file.Close(); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if got := f.post(t, release(plainSpec, "", "")); got.code != 200 {
			t.Errorf("want 200, got %d %s", got.code, got.body)
		}
	}
	eventually(t, "a line in the log", func() bool { return strings.Contains(f.logs.String(), "cannot record a call") })
	if n := strings.Count(f.logs.String(), "cannot record a call"); n != 1 {
		t.Errorf("want one line in a minute, got %d", n)
	}
	if code := run([]string{"--record-dir=/proc/nowhere", "--listen=127.0.0.1:0", "--metrics-listen="}, lookupIn(nil), io.Discard, io.Discard); code != 1 {
		t.Errorf("want no start with a folder that is not there, got %d", code)
	}
}

// What is recorded has room for what the hook was given beside the request.
func TestMeasurementsAreRecorded(t *testing.T) {
	line := recorded{Measurements: greyrelease.Measurements{Available: true, Finished: []greyrelease.Measurement{{Query: greyrelease.Query{Text: "up", Time: time.Unix(1, 0).UTC()}, Value: "1"}}}}
	text, err := encodePlain(line)
	if err != nil {
		t.Fatal(err)
	}
	var got recorded
	if err := json.Unmarshal(text, &got); err != nil || !reflect.DeepEqual(line.Measurements, got.Measurements) {
		t.Errorf("want %v, got %v, %v", line.Measurements, got.Measurements, err)
	}
}
