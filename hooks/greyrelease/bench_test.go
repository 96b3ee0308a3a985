package greyrelease_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	kjson "k8s.io/apimachinery/pkg/util/json"

	"greyrelease.example.com/hooks/greyrelease"
)

// BenchmarkSync answers a request of 5 KB, a recorded one of some 30 KB, and that with
// more snapshots in it, up to 300 KB. x-floor is the time as a multiple of what a hook in Go has to
// pay that does nothing, measured in turns: to decode the same bytes into the same
// types, and to encode the same answer, with the decoder of Kubernetes and encoding/json.
// x-floor-B is the same of the allocated bytes. cpu-ns/op is the processor time of a
// call, collection of garbage included, which other processes disturb less than ns/op.
func BenchmarkSync(b *testing.B) {
	request, now := stored(b, "progressing")
	b.Run(fmt.Sprintf("small/%dKB", len(request)/1000), func(b *testing.B) { benchmarkSync(b, request, now) })
	for _, mode := range []string{"dynamic", "server-side"} {
		for _, snapshots := range []int{0, 10, 66} {
			request, now := grown(b, mode, snapshots)
			b.Run(fmt.Sprintf("%s/snapshots=%d/%dKB", mode, snapshots, len(request)/1000), func(b *testing.B) {
				benchmarkSync(b, request, now)
			})
		}
	}
}

func benchmarkSync(b *testing.B, request []byte, now time.Time) {
	answer := sync(b, request, now)
	whole := func() {
		if _, err := sync(b, request, now).Encode(); err != nil {
			b.Fatal(err)
		}
	}
	floor := func() {
		var decoded struct {
			Parent   greyrelease.Parent                      `json:"parent"`
			Children map[string]map[string]greyrelease.Child `json:"children"`
		}
		if err := kjson.Unmarshal(request, &decoded); err != nil {
			b.Fatal(err)
		}
		if _, err := json.Marshal(answer.SyncResponse); err != nil {
			b.Fatal(err)
		}
	}
	var inWhole, inFloor []time.Duration
	for b.Loop() {
		start := time.Now()
		whole()
		between := time.Now()
		floor()
		inWhole = append(inWhole, between.Sub(start))
		inFloor = append(inFloor, time.Since(between))
	}
	b.ReportMetric(median(inWhole), "ns/op")
	b.ReportMetric(processor(whole), "cpu-ns/op")
	b.ReportMetric(median(inWhole)/median(inFloor), "x-floor")
	b.ReportMetric(allocated(whole)/allocated(floor), "x-floor-B")
}

// processor is the processor time of f in nanoseconds.
func processor(f func()) float64 {
	const runs = 500
	used := func() int64 {
		var r syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
			panic(err)
		}
		return r.Utime.Nano() + r.Stime.Nano()
	}
	runtime.GC()
	before := used()
	for range runs {
		f()
	}
	return float64(used()-before) / runs
}

// median is the middle one of the times, which other processes disturb less than
// their sum.
func median(times []time.Duration) float64 {
	slices.Sort(times)
	return float64(times[len(times)/2].Nanoseconds())
}

// allocated is how many bytes f allocates.
func allocated(f func()) float64 {
	const runs = 20
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range runs {
		f()
	}
	runtime.ReadMemStats(&after)
	return float64(after.TotalAlloc-before.TotalAlloc) / runs
}

func sync(tb testing.TB, request []byte, now time.Time) *greyrelease.Response {
	tb.Helper()
	decoded, err := greyrelease.DecodeSync(request)
	if err != nil {
		tb.Fatal(err)
	}
	response, err := greyrelease.Sync(decoded, greyrelease.Measurements{}, now)
	if err != nil {
		tb.Fatal(err)
	}
	return response
}

type object = map[string]any

// stored is a request of the fixtures, compact as Metacontroller sends it, and when it
// is answered.
func stored(b *testing.B, name string) ([]byte, time.Time) {
	b.Helper()
	name = "../../test/fixtures/" + name
	var answer struct{ Now time.Time }
	if err := json.Unmarshal(read(b, name+".answer.json"), &answer); err != nil {
		b.Fatal(err)
	}
	var text bytes.Buffer
	if err := json.Compact(&text, read(b, name+".request.json")); err != nil {
		b.Fatal(err)
	}
	return text.Bytes(), answer.Now
}

// grown is the recorded request of a release that waits in its second batch,
// with as many snapshots as wanted, or as it came for 0. They are made by the
// hook itself, which is asked for one version after the other, and look as
// Metacontroller stores them.
func grown(b *testing.B, mode string, snapshots int) ([]byte, time.Time) {
	b.Helper()
	text, now := stored(b, "recorded/"+mode+"-paused")
	if snapshots == 0 {
		return text, now
	}
	request := decode(b, text)
	spec := request["parent"].(object)["spec"].(object)
	configMaps := request["children"].(object)["ConfigMap.v1"].(object)
	version := spec["targetVersion"]
	spec["revisionHistoryLimit"] = 100 // or they would be pruned
	for i := 0; len(configMaps) <= snapshots; i++ {
		spec["targetVersion"] = fmt.Sprintf("1.%d.0", 100+i)
		for _, child := range sync(b, encode(b, request), now).Children {
			made := decode(b, encode(b, child))
			key := "default/" + made["metadata"].(object)["name"].(string)
			if made["kind"] == "ConfigMap" && configMaps[key] == nil {
				configMaps[key] = observed(b, made, configMaps["default/web-rev-1"].(object))
			}
		}
	}
	spec["targetVersion"] = version
	return encode(b, request), now
}

// observed is a ConfigMap as it is observed once it was asked for; like is another
// one, from which it gets what the API server and Metacontroller add.
func observed(b *testing.B, made, like object) object {
	meta := maps.Clone(like["metadata"].(object))
	annotations := maps.Clone(made["metadata"].(object)["annotations"].(object))
	const applied = "metacontroller.k8s.io/last-applied-configuration"
	if meta["annotations"].(object)[applied] != nil {
		annotations[applied] = string(encode(b, made))
	}
	meta["name"], meta["labels"], meta["annotations"] = made["metadata"].(object)["name"], made["metadata"].(object)["labels"], annotations
	made = maps.Clone(made)
	made["metadata"] = meta
	return made
}

func read(b *testing.B, path string) []byte {
	b.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		b.Fatal(err)
	}
	return text
}

func decode(b *testing.B, text []byte) object {
	b.Helper()
	var v object
	in := json.NewDecoder(bytes.NewReader(text))
	in.UseNumber()
	if err := in.Decode(&v); err != nil {
		b.Fatal(err)
	}
	return v
}

func encode(b *testing.B, v any) []byte {
	b.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		b.Fatal(err)
	}
	return text
}
