// Package promtool has Prometheus' own tool look at what the service exports and at the
// alerts of manifests/monitoring. Debian's package prometheus has it.
package promtool

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"greyrelease.example.com/test/debian"
)

const (
	root  = "../../.."
	rules = root + "/manifests/monitoring/rules.yaml"
	cases = "testdata/alerts.yaml"
)

func promtool(t *testing.T, input string, args ...string) string {
	t.Helper()
	cache, err := debian.Cache()
	if err != nil {
		t.Fatal(err)
	}
	found, err := debian.Find(t.Context(), cache, "prometheus", os.Stderr, "promtool")
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), found.Paths["promtool"], args...)
	command.Stdin = strings.NewReader(input)
	out, err := command.CombinedOutput()
	if err != nil {
		t.Errorf("promtool %v: %v\n%s", args, err, out)
	}
	return string(out)
}

func TestRules(t *testing.T) {
	promtool(t, "", "check", "rules", "--lint=all", "--lint-fatal", rules)
	promtool(t, "", "test", "rules", cases)
}

// Each alert is seen to fire, and to be silent before.
func TestEveryAlertHasItsCases(t *testing.T) {
	var file struct {
		Groups []struct {
			Rules []struct{ Alert string }
		}
	}
	load(t, rules, &file)
	var told struct {
		Tests []struct {
			Alerts []struct {
				Name   string `json:"alertname"`
				Expect []any  `json:"exp_alerts"`
			} `json:"alert_rule_test"`
		}
	}
	load(t, cases, &told)
	fires, silent := map[string]bool{}, map[string]bool{}
	for _, test := range told.Tests {
		for _, alert := range test.Alerts {
			fires[alert.Name] = fires[alert.Name] || len(alert.Expect) > 0
			silent[alert.Name] = silent[alert.Name] || len(alert.Expect) == 0
		}
	}
	if len(file.Groups) != 2 {
		t.Errorf("want 2 groups, got %d", len(file.Groups))
	}
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			if !fires[rule.Alert] || !silent[rule.Alert] {
				t.Errorf("%s: want cases in which it fires and is silent, got %v and %v", rule.Alert, fires[rule.Alert], silent[rule.Alert])
			}
		}
	}
}

func load(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// What the built service exports after good and bad requests has no fault that promtool
// knows of.
func TestMetrics(t *testing.T) {
	program := filepath.Join(t.TempDir(), "greyrelease")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./server")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("cannot build the service: %v\n%s", err, out)
	}
	service := exec.CommandContext(t.Context(), program, "--listen=127.0.0.1:0", "--metrics-listen=127.0.0.1:0", "--drain-delay=0s")
	log, err := service.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := service.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := service.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
		if err := service.Wait(); err != nil {
			t.Error(err)
		}
	}()
	var at struct{ Msg, Listen, MetricsListen string }
	lines := bufio.NewScanner(log)
	for at.Msg != "serving" {
		if !lines.Scan() {
			t.Fatalf("want the addresses in the log, it ended: %v", lines.Err())
		}
		if err := json.Unmarshal(lines.Bytes(), &at); err != nil {
			t.Fatal(err)
		}
	}
	// Nobody has to read the log, but it must not stop the service.
	go func() { _, _ = io.Copy(io.Discard, log) }()
	for path, name := range map[string]string{
		"sync": "rolled-back", "customize": "customize", "sync?": "bad-request-no-json",
	} {
		body, err := os.ReadFile(filepath.Join(root, "test", "fixtures", name+".request.json"))
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.Post("http://"+at.Listen+"/"+path, "application/json", bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
	}
	wants := []string{
		`greyrelease_requests_total{hook="sync",code="200"} 1`, `greyrelease_requests_total{hook="sync",code="400"} 1`,
		`greyrelease_requests_total{hook="customize",code="200"} 1`,
	}
	missing := func(text string) []string {
		return slices.DeleteFunc(slices.Clone(wants), func(want string) bool { return strings.Contains(text, want+"\n") })
	}
	// A request is counted a moment after its answer was sent.
	text := scrape(t, at.MetricsListen)
	for deadline := time.Now().Add(10 * time.Second); len(missing(text)) > 0 && time.Now().Before(deadline); {
		time.Sleep(20 * time.Millisecond)
		text = scrape(t, at.MetricsListen)
	}
	if without := missing(text); len(without) > 0 {
		t.Errorf("want %q, got\n%s", without, text)
	}
	// It prints what it finds, and ends well also where that is only advice.
	if out := promtool(t, text, "check", "metrics"); out != "" {
		t.Errorf("want nothing to say, got\n%s", out)
	}
}

func scrape(t *testing.T, address string) string {
	t.Helper()
	response, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
