package history

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// spec is a raw spec and rendered its template as it would be rendered.
func sample(version string) (spec, rendered json.RawMessage) {
	spec = json.RawMessage(fmt.Sprintf(
		`{"targetVersion":%q,"replicas":10,"batches":[{"replicas":"20%%"}],"template":{"spec":{"containers":[{"name":"web","image":"nginx","args":["\u003c&"]}]}}}`, version))
	content, err := IdentifySpec(spec)
	if err != nil {
		panic(err)
	}
	rendered = json.RawMessage(fmt.Sprintf(
		`{"metadata":{"labels":{"app":"web","greyrelease.example.com/name":"web","greyrelease.example.com/revision":%q}},"spec":{"containers":[{"args":["<&"],"image":"nginx:%s","name":"web"}]}}`,
		content.Hash, version))
	return spec, rendered
}

func draft(t testing.TB, number int64, version string) Draft {
	t.Helper()
	spec, rendered := sample(version)
	content, err := IdentifySpec(spec)
	if err != nil {
		t.Fatal(err)
	}
	return Draft{
		Name: fmt.Sprintf("web-rev-%d", number), Number: number, Content: content,
		Labels: map[string]string{Prefix + "name": "web"}, Spec: spec, Template: rendered,
	}
}

// observed is what comes back of an object, with what others add to it.
func observed(t testing.TB, c Holder) Object {
	t.Helper()
	raw, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var o struct {
		Metadata struct {
			Name                string
			Labels, Annotations map[string]string
		}
		Immutable  *bool
		Type       string
		Data       json.RawMessage
		BinaryData json.RawMessage
	}
	if err := json.Unmarshal(raw, &o); err != nil {
		t.Fatal(err)
	}
	o.Metadata.Labels["controller-uid"] = "1"
	if o.Metadata.Annotations == nil {
		o.Metadata.Annotations = map[string]string{}
	}
	o.Metadata.Annotations["metacontroller.k8s.io/last-applied-configuration"] = string(raw)
	o.Metadata.Annotations["kubectl.kubernetes.io/last-applied-configuration"] = "{}"
	return Object{
		Kind: c.Kind, UID: o.Metadata.Name + " " + string(c.Kind), Created: "2026-11-30T12:00:00Z", Type: o.Type,
		Name: o.Metadata.Name, Labels: o.Metadata.Labels, Annotations: o.Metadata.Annotations,
		Immutable: o.Immutable, Data: o.Data, BinaryData: o.BinaryData,
	}
}

func newObject(t testing.TB, number int64, version string) Object {
	t.Helper()
	c, err := NewSnapshot(draft(t, number, version), Dynamic)
	if err != nil {
		t.Fatal(err)
	}
	return observed(t, c)
}

func TestNewSnapshot(t *testing.T) {
	c, err := NewSnapshot(draft(t, 3, "1.28.0"), Dynamic)
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"web-rev-3",` +
		`"labels":{"greyrelease.example.com/name":"web","greyrelease.example.com/number":"3","greyrelease.example.com/revision":"59c2e9fe53"},` +
		`"annotations":{"greyrelease.example.com/version":"1.28.0"}},"immutable":true,"data":{` +
		`"spec.json":"{\"batches\":[{\"replicas\":\"20%\"}],\"replicas\":10,\"targetVersion\":\"1.28.0\",\"template\":{\"spec\":{\"containers\":[{\"args\":[\"\u003c\u0026\"],\"image\":\"nginx\",\"name\":\"web\"}]}}}",` +
		`"template.json":"{\"metadata\":{\"labels\":{\"app\":\"web\",\"greyrelease.example.com/name\":\"web\",\"greyrelease.example.com/revision\":\"59c2e9fe53\"}},` +
		`\"spec\":{\"containers\":[{\"args\":[\"\u003c\u0026\"],\"image\":\"nginx:1.28.0\",\"name\":\"web\"}]}}"}}`
	if string(got) != want {
		t.Errorf("want %s\ngot  %s", want, got)
	}
}

func TestNewSnapshotRefuses(t *testing.T) {
	for _, tt := range []struct {
		why    string
		change func(*Draft)
		want   string
	}{
		{why: "no number", change: func(d *Draft) { d.Number = 0 }, want: "cannot make snapshot web-rev-3: number 0 is out of range"},
		{why: "other content", change: func(d *Draft) { d.Spec, _ = sample("1.29.0") }, want: "cannot make snapshot web-rev-3: the spec has the content of f4b08c496e, not of 59c2e9fe53"},
		{why: "no JSON", change: func(d *Draft) { d.Spec = json.RawMessage(`{`) }, want: "cannot make snapshot web-rev-3: cannot identify spec: cannot read JSON at offset 1: unexpected end"},
	} {
		t.Run(tt.why, func(t *testing.T) {
			d := draft(t, 3, "1.28.0")
			tt.change(&d)
			if _, err := NewSnapshot(d, Dynamic); err == nil || err.Error() != tt.want {
				t.Errorf("want error %q, got %v", tt.want, err)
			}
		})
	}
}

// TestSnapshotRoundTrip: what is read is what was kept, and is emitted byte for
// byte, without what others wrote (SN-09, LC-09).
func TestSnapshotRoundTrip(t *testing.T) {
	for _, tt := range []struct {
		kind Kind
		size int
	}{{ConfigMap, 0}, {ConfigMap, 200 << 10}, {Secret, 0}, {Secret, 200 << 10}} {
		t.Run(fmt.Sprintf("%s of %d bytes", tt.kind, tt.size), func(t *testing.T) {
			size := tt.size
			d := draft(t, 7, "1.28.0")
			d.Kind = tt.kind
			d = padded(t, d, strings.Repeat("灰度<&", size/10))
			c, err := NewSnapshot(d, Dynamic)
			if err != nil {
				t.Fatal(err)
			}
			if zipped := bytes.Contains(append(c.Data, c.BinaryData...), []byte(`"spec.json.gz"`)); zipped != (size > 0) {
				t.Errorf("want gzip %v, got %v", size > 0, zipped)
			}
			if tt.kind == Secret && (c.BinaryData != nil || c.Type != SecretType) {
				t.Errorf("want type %s and data alone, got %q and %.100s", SecretType, c.Type, c.BinaryData)
			}
			snapshots := Read([]Object{observed(t, c)})
			if len(snapshots) != 1 {
				t.Fatalf("want one snapshot, got %+v", snapshots)
			}
			s := snapshots[0]
			if s.Number != 7 || s.Name != "web-rev-7" || s.Version != "1.28.0" || s.Hash != d.Content.Hash || s.Broken != "" {
				t.Errorf("want revision 7 of 1.28.0, got %+v", s)
			}
			spec, err := s.Spec()
			if err != nil {
				t.Fatal(err)
			}
			if want, err := Canonical(d.Spec); err != nil || !bytes.Equal(want, spec) {
				t.Errorf("want %.200s, got %.200s (%v)", want, spec, err)
			}
			template, err := s.Template()
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(d.Template, template.Text) {
				t.Errorf("want %.200s, got %.200s", d.Template, template.Text)
			}
			content, err := s.Content()
			if err != nil || !content.Equal(d.Content) {
				t.Errorf("want the content again, got %+v (%v)", content, err)
			}
			want, err := json.Marshal(c)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := json.Marshal(Emit(s)); err != nil || !bytes.Equal(want, got) {
				t.Errorf("want %.400s, got %.400s (%v)", want, got, err)
			}
		})
	}
}

// padded makes a draft larger by an annotation of its template.
func padded(t testing.TB, d Draft, padding string) Draft {
	t.Helper()
	annotation, err := json.Marshal(padding)
	if err != nil {
		t.Fatal(err)
	}
	d.Spec = bytes.Replace(d.Spec, []byte(`"template":{`), []byte(`"template":{"metadata":{"annotations":{"pad":`+string(annotation)+`}},`), 1)
	if d.Content, err = IdentifySpec(d.Spec); err != nil {
		t.Fatal(err)
	}
	d.Template = json.RawMessage(fmt.Sprintf(`{"metadata":{"annotations":{"pad":%s},"labels":{%q:%q}}}`, annotation, RevisionLabel, d.Content.Hash))
	if d.Template, err = Canonical(d.Template); err != nil {
		t.Fatal(err)
	}
	return d
}

// TestSnapshotsAreDeterministic (AM-15): the same revision gives the same bytes.
func TestSnapshotsAreDeterministic(t *testing.T) {
	d := padded(t, draft(t, 7, "1"), strings.Repeat("abc<", 50_000))
	first, err := NewSnapshot(d, Dynamic)
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		again, err := NewSnapshot(d, Dynamic)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(first.BinaryData, again.BinaryData) {
			t.Fatal("want the same bytes, got others")
		}
	}
}

func TestReadPicksSnapshots(t *testing.T) {
	objects := []Object{
		newObject(t, 10, "c"),
		{Name: "web-rollout", Labels: map[string]string{Prefix + "name": "web"}, Data: json.RawMessage(`{"record.json":"{}"}`)},
		newObject(t, 2, "b"),
		{Name: "somebody-elses"},
		{Name: "a-rev-x"},
	}
	var got []string
	for _, s := range Read(objects) {
		got = append(got, fmt.Sprintf("%d %s %s", s.Number, s.Name, s.Broken))
	}
	if want := "2 web-rev-2 ,10 web-rev-10 "; strings.Join(got, ",") != want {
		t.Errorf("want %q, got %q", want, strings.Join(got, ","))
	}
}

// TestBrokenSnapshots (SN-08): what was tampered with is reported with a reason
// and never used.
func TestBrokenSnapshots(t *testing.T) {
	zip := func(text []byte) string {
		zipped, err := pack(text)
		if err != nil {
			t.Fatal(err)
		}
		return base64.StdEncoding.EncodeToString(zipped)
	}
	spec, _ := sample("1")
	const hash = "25ef575474"
	for _, tt := range []struct {
		why    string
		change func(*Object)
		early  string // found by Read
		late   string // found when it is opened
	}{
		{why: "no number", change: func(o *Object) { delete(o.Labels, NumberLabel) }, early: "it has no label greyrelease.example.com/number"},
		{why: "a number that is none", change: func(o *Object) { o.Labels[NumberLabel] = "03" }, early: `its label greyrelease.example.com/number is "03"`},
		{why: "a negative number", change: func(o *Object) { o.Labels[NumberLabel] = "-3" }, early: `its label greyrelease.example.com/number is "-3"`},
		{why: "a number without end", change: func(o *Object) { o.Labels[NumberLabel] = "9223372036854775807" }, early: `its label greyrelease.example.com/number is "9223372036854775807"`},
		{why: "the number of another one", change: func(o *Object) { o.Labels[NumberLabel] = "4" }, early: `its label greyrelease.example.com/number is "4", which its name denies`},
		{why: "no hash", change: func(o *Object) { delete(o.Labels, RevisionLabel) }, early: "it has no label greyrelease.example.com/revision"},
		{why: "no data at all", change: func(o *Object) { o.Data = nil }, early: "it has no spec.json"},
		{why: "no template", change: func(o *Object) { o.Data = json.RawMessage(`{"spec.json":"{}"}`) }, early: "it has no template.json"},
		{
			why: "the name of a part in another's text", early: "it has no template.json",
			change: func(o *Object) { o.Data = json.RawMessage(`{"spec.json":"{\"template.json\":1}"}`) },
		},
		{
			why: "data that is no JSON", late: `cannot read JSON at offset 0: unexpected "x"`,
			change: func(o *Object) {
				o.Data = json.RawMessage(`x"spec.json""template.json"`)
			},
		},
		{
			why: "a part that is no string", late: "spec.json is no string",
			change: func(o *Object) { o.Data = json.RawMessage(`{"spec.json":{},"template.json":""}`) },
		},
		{
			why: "a part under another name", late: "it has no spec.json",
			change: func(o *Object) { o.Data = json.RawMessage(`{"x":"spec.json","template.json":"{}"}`) },
		},
		{
			why: "a spec that is no JSON", late: "spec.json: cannot identify spec: cannot read JSON at offset 0: unexpected end",
			change: func(o *Object) { o.Data = json.RawMessage(`{"spec.json":"","template.json":"{}"}`) },
		},
		{
			why: "another spec", late: "spec.json has the hash a07301a6f0 and the label says " + hash,
			change: func(o *Object) {
				o.Data = json.RawMessage(`{"spec.json":"{\"targetVersion\":\"\",\"template\":{}}","template.json":"{}"}`)
			},
		},
		{
			why: "another hash", late: "spec.json has the hash " + hash + " and the label says 0123456789",
			change: func(o *Object) { o.Labels[RevisionLabel] = "0123456789" },
		},
		{
			why: "no base64", late: "spec.json.gz is no base64: illegal base64 data at input byte 0",
			change: func(o *Object) {
				o.Data, o.BinaryData = nil, json.RawMessage(`{"spec.json.gz":"*","template.json.gz":""}`)
			},
		},
		{
			why: "no gzip", late: "cannot unpack spec.json.gz: EOF",
			change: func(o *Object) {
				o.Data, o.BinaryData = nil, json.RawMessage(`{"spec.json.gz":"","template.json.gz":""}`)
			},
		},
		{
			why: "half of it", late: "cannot unpack spec.json.gz: unexpected EOF",
			change: func(o *Object) {
				whole := zip(spec)
				o.Data, o.BinaryData = nil, json.RawMessage(fmt.Sprintf(`{"spec.json.gz":%q,"template.json.gz":""}`, whole[:len(whole)/8*4]))
			},
		},
		{
			why: "a Secret with text", late: "spec.json is no base64: illegal base64 data at input byte 0",
			change: func(o *Object) { o.Kind = Secret },
		},
		{
			why: "a Secret with binaryData", early: "it has no spec.json",
			change: func(o *Object) {
				o.Kind, o.Data, o.BinaryData = Secret, nil, json.RawMessage(`{"spec.json.gz":"","template.json.gz":""}`)
			},
		},
		{
			why: "a bomb", late: "cannot unpack spec.json.gz: it unpacks to more than 4194304 bytes",
			change: func(o *Object) {
				o.Data, o.BinaryData = nil, json.RawMessage(fmt.Sprintf(`{"spec.json.gz":%q,"template.json.gz":""}`, zip(make([]byte, maxUnpacked+1))))
			},
		},
	} {
		t.Run(tt.why, func(t *testing.T) {
			o := newObject(t, 3, "1")
			tt.change(&o)
			snapshots := Read([]Object{o})
			if len(snapshots) != 1 {
				t.Fatalf("want one snapshot, got %+v", snapshots)
			}
			s := snapshots[0]
			if s.Broken != tt.early {
				t.Errorf("want %q, got %q", tt.early, s.Broken)
			}
			_, err := s.Content()
			var broken *BrokenError
			if !errors.As(err, &broken) || broken.Name != "web-rev-3" || broken.Reason != tt.early+tt.late {
				t.Errorf("want %q, got %v", tt.early+tt.late, err)
			}
			emitted := Emit(s)
			if !bytes.Equal(o.Data, emitted.Data) || !bytes.Equal(o.BinaryData, emitted.BinaryData) {
				t.Errorf("want it emitted as it is, got %+v", emitted)
			}
		})
	}
	t.Run("a template of another revision", func(t *testing.T) {
		o := newObject(t, 3, "1")
		o.Data = bytes.Replace(o.Data, []byte(`revision\":\"`+hash), []byte(`revision\":\"0123456789`), 1)
		want := "snapshot web-rev-3 is broken: template.json does not carry the label of revision " + hash
		if _, err := Read([]Object{o})[0].Template(); err == nil || err.Error() != want {
			t.Errorf("want %q, got %v", want, err)
		}
	})
}

// TestReadDecodesNothing: 50 snapshots of 60 KiB cost about as much as their
// labels.
func TestReadDecodesNothing(t *testing.T) {
	objects := make([]Object, 50)
	for i := range objects {
		c, err := NewSnapshot(padded(t, draft(t, int64(i+1), "1"), strings.Repeat("x", 30<<10)), Dynamic)
		if err != nil {
			t.Fatal(err)
		}
		objects[i] = observed(t, c)
	}
	if got := testing.AllocsPerRun(10, func() { Read(objects) }); got > 20 {
		t.Errorf("want at most 20 allocations, got %v", got)
	}
}

func BenchmarkRead50(b *testing.B) {
	objects := make([]Object, 50)
	for i := range objects {
		c, err := NewSnapshot(padded(b, draft(b, int64(i+1), "1"), strings.Repeat("x", 30<<10)), Dynamic)
		if err != nil {
			b.Fatal(err)
		}
		objects[i] = observed(b, c)
	}
	b.ReportAllocs()
	for b.Loop() {
		Read(objects)
	}
}
