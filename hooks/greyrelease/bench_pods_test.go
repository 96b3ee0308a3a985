package greyrelease_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"greyrelease.example.com/hooks/greyrelease"
)

// BenchmarkPods answers a recorded request with related pods in it, in turns with the
// same request without. x-without is the time as a multiple of that without pods,
// x-without-B the same of the allocated bytes, and B/pod what each pod adds.
func BenchmarkPods(b *testing.B) {
	without, now := stored(b, "recorded/dynamic-paused")
	for _, pods := range []int{0, 10, 50, 500} {
		for _, words := range []int{0, 4096} {
			if pods == 0 && words > 0 {
				continue
			}
			with := withPods(b, without, pods, words)
			b.Run(fmt.Sprintf("pods=%d/words=%d/%dKB", pods, words, len(with)/1000), func(b *testing.B) {
				benchmarkPods(b, with, without, pods, now)
			})
		}
	}
}

func benchmarkPods(b *testing.B, with, without []byte, pods int, now time.Time) {
	answer := func(request []byte) func() {
		return func() {
			if _, err := sync(b, request, now).Encode(); err != nil {
				b.Fatal(err)
			}
		}
	}
	var inWith, inWithout []time.Duration
	for b.Loop() {
		start := time.Now()
		answer(with)()
		between := time.Now()
		answer(without)()
		inWith = append(inWith, between.Sub(start))
		inWithout = append(inWithout, time.Since(between))
	}
	more, less := allocated(answer(with)), allocated(answer(without))
	b.ReportMetric(median(inWith), "ns/op")
	b.ReportMetric(median(inWith)/median(inWithout), "x-without")
	b.ReportMetric(more/less, "x-without-B")
	b.ReportMetric((more-less)/float64(max(1, pods)), "B/pod")
}

// withPods adds pods of the target that crash to a request, each of which left so many
// bytes of last words.
func withPods(tb testing.TB, request []byte, pods, words int) []byte {
	tb.Helper()
	text, err := os.ReadFile("testdata/pod.json")
	if err != nil {
		tb.Fatal(err)
	}
	var body object
	if err := json.Unmarshal(request, &body); err != nil {
		tb.Fatal(err)
	}
	parent := body["parent"].(object)
	hash := ""
	for _, d := range body["children"].(object)["Deployment.apps/v1"].(object) {
		labels := d.(object)["metadata"].(object)["labels"].(object)
		if fmt.Sprint(labels[greyrelease.LabelNumber]) == fmt.Sprint(parent["status"].(object)["targetRevision"]) {
			hash = labels[greyrelease.LabelRevision].(string)
		}
	}
	group := object{}
	for i := range pods {
		var pod object
		if err := json.Unmarshal([]byte(strings.ReplaceAll(string(text), "0000000000", hash)), &pod); err != nil {
			tb.Fatal(err)
		}
		meta := pod["metadata"].(object)
		name := fmt.Sprintf("%s%05d", meta["generateName"], i)
		meta["name"], meta["labels"].(object)[greyrelease.LabelName] = name, parent["metadata"].(object)["name"]
		if words > 0 {
			last := pod["status"].(object)["containerStatuses"].([]any)[0].(object)["lastState"].(object)
			last["terminated"].(object)["message"] = strings.Repeat("no database ", words/12)
		}
		group["default/"+name] = pod
	}
	body["related"] = object{"Pod.v1": group}
	with, err := json.Marshal(body)
	if err != nil {
		tb.Fatal(err)
	}
	return with
}
