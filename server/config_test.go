package main

import (
	"bytes"
	"errors"
	"flag"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write testdata/*.golden")

func lookupIn(environment map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		value, present := environment[name]
		return value, present
	}
}

func TestParseConfig(t *testing.T) {
	defaults, err := parseConfig(nil, lookupIn(nil))
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name string
		args string
		env  map[string]string
		set  func(*config)
	}{
		{"flag", "--listen 127.0.0.1:1 -max-body=8Mi", nil, func(c *config) { c.listen, c.maxBody = "127.0.0.1:1", 8<<20 }},
		{"environment", "", map[string]string{"GREYRELEASE_LISTEN": ":2", "GREYRELEASE_READ_TIMEOUT": "1m", "GREYRELEASE_WRITE_TIMEOUT": "61s", "GREYRELEASE_LOG_LEVEL": "debug"},
			func(c *config) {
				c.listen, c.readTimeout, c.writeTimeout, c.logLevel = ":2", time.Minute, 61*time.Second, slog.LevelDebug
			}},
		{"the flag wins", "--listen=:1", map[string]string{"GREYRELEASE_LISTEN": ":2"}, func(c *config) { c.listen = ":1" }},
		{"the flag wins even where it sets the default", "--listen=:8080", map[string]string{"GREYRELEASE_LISTEN": ":2"}, func(*config) {}},
		{"bytes", "--max-body=1000000 --max-buffered=1G --max-header=4096", nil, func(c *config) { c.maxBody, c.maxBuffered, c.maxHeader = 1e6, 1e9, 4096 }},
		{"no metrics", "--metrics-listen=", nil, func(c *config) { c.metricsListen = "" }},
		{"no metrics by environment", "", map[string]string{"GREYRELEASE_METRICS_LISTEN": ""}, func(c *config) { c.metricsListen = "" }},
		{"secured", "--tls-cert-file=a --tls-key-file=b", map[string]string{"GREYRELEASE_TLS_CLIENT_CA_FILE": "c", "GREYRELEASE_AUTH_TOKEN_FILE": "d"},
			func(c *config) { c.tlsCertFile, c.tlsKeyFile, c.tlsClientCAFile, c.authTokenFile = "a", "b", "c", "d" }},
		{"no drain delay", "--drain-delay=0", nil, func(c *config) { c.drainDelay = 0 }},
		{"version", "--version", nil, func(c *config) { c.showVersion = true }},
		{"version is no setting", "", map[string]string{"GREYRELEASE_VERSION": "true"}, func(*config) {}},
		{"Kubernetes' service links", "", map[string]string{"GREYRELEASE_PORT": "tcp://10.0.0.1:8080", "GREYRELEASE_SERVICE_HOST": "10.0.0.1"}, func(*config) {}},
	} {
		t.Run(row.name, func(t *testing.T) {
			want := *defaults
			row.set(&want)
			got, err := parseConfig(strings.Fields(row.args), lookupIn(row.env))
			if err != nil {
				t.Fatal(err)
			}
			if want != *got {
				t.Errorf("want %+v\ngot  %+v", want, *got)
			}
		})
	}
}

func TestParseConfigRefuses(t *testing.T) {
	for _, row := range []struct {
		args string
		env  map[string]string
		want string
	}{
		{"--nonsense", nil, "flag provided but not defined: -nonsense"},
		{"serve", nil, `unexpected argument "serve"`},
		{"--max-body=many", nil, `invalid value "many" for flag -max-body: not a size such as 16777216 or 16Mi`},
		{"--max-body=500m", nil, `invalid value "500m" for flag -max-body: not a whole number of bytes`},
		{"--max-body=2Gi --max-buffered=4Gi", nil, "max-body must be at most 1Gi"},
		{"--max-body=0", nil, "max-body must be at least 1"},
		{"--max-body=16Mi --max-buffered=8Mi", nil, "max-buffered must be at least max-body"},
		{"--max-concurrent=0", nil, "max-concurrent must be at least 1"},
		{"--max-header=-1", nil, "max-header must be at least 1"},
		{"--listen=", nil, "listen must not be empty"},
		{"--read-header-timeout=0", nil, "read-header-timeout must be more than 0"},
		{"--read-timeout=0", nil, "read-timeout must be more than 0"},
		{"--read-timeout=30s", nil, "write-timeout must be more than read-timeout"},
		{"--idle-timeout=-1s", nil, "idle-timeout must be more than 0"},
		{"--shutdown-timeout=0", nil, "shutdown-timeout must be more than 0"},
		{"--drain-delay=-1s", nil, "drain-delay must not be negative"},
		{"--tls-cert-file=a", nil, "tls-cert-file and tls-key-file must be set together"},
		{"--tls-key-file=a", nil, "tls-cert-file and tls-key-file must be set together"},
		{"--record-dir=a --record-size=100Ki", nil, "record-size must be at least 1Mi"},
		{"--debug-listen=:6060", nil, "debug-listen must be an address of loopback, as 127.0.0.1:6060"},
		{"--debug-listen=10.0.0.1:6060", nil, "debug-listen must be an address of loopback, as 127.0.0.1:6060"},
		{"--debug-listen=6060", nil, "debug-listen must be an address of loopback, as 127.0.0.1:6060"},
		{"--tls-client-ca-file=a", nil, "tls-client-ca-file needs tls-cert-file and tls-key-file"},
		{"--max-concurrent=0 --drain-delay=-1s", nil, "max-concurrent must be at least 1\ndrain-delay must not be negative"},
		{"", map[string]string{"GREYRELEASE_READ_TIMEOUT": "10"}, `invalid value "10" for GREYRELEASE_READ_TIMEOUT: parse error`},
		{"", map[string]string{"GREYRELEASE_LOG_LEVEL": "loud"}, `invalid value "loud" for GREYRELEASE_LOG_LEVEL: slog: level string "loud": unknown name`},
	} {
		_, err := parseConfig(strings.Fields(row.args), lookupIn(row.env))
		if err == nil {
			t.Errorf("%s %v: want %s, got no error", row.args, row.env, row.want)
			continue
		}
		if row.want != err.Error() {
			t.Errorf("%s %v: want %s\ngot  %s", row.args, row.env, row.want, err)
		}
	}
	if _, err := parseConfig([]string{"--help"}, lookupIn(nil)); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("want help, got %v", err)
	}
}

func TestNoFlagCollidesWithServiceLinks(t *testing.T) {
	(&config{}).flags().VisitAll(func(f *flag.Flag) {
		for _, taken := range []string{"GREYRELEASE_PORT", "GREYRELEASE_SERVICE"} {
			if name := envName(f.Name); strings.HasPrefix(name, taken) {
				t.Errorf("want no variable that begins with %s, got %s", taken, name)
			}
		}
	})
}

func TestRunWithoutServing(t *testing.T) {
	for _, row := range []struct {
		args           string
		code           int
		stdout, stderr string
	}{
		{"--nonsense", 2, "", "greyrelease: flag provided but not defined: -nonsense\nSee greyrelease --help.\n"},
		{"--version", 0, currentBuild().String() + "\n", ""},
		{"--listen=nowhere:x --metrics-listen=", 1, "", ""},
	} {
		var stdout, stderr bytes.Buffer
		code := run(strings.Fields(row.args), lookupIn(nil), &stdout, &stderr)
		if row.code != code || row.stdout != stdout.String() || row.stderr != "" && row.stderr != stderr.String() {
			t.Errorf("%s: want %d %q %q\ngot  %d %q %q", row.args, row.code, row.stdout, row.stderr, code, stdout.String(), stderr.String())
		}
	}
}

func TestHelpGolden(t *testing.T) {
	var stdout, stderr bytes.Buffer
	if code := run([]string{"--help"}, lookupIn(nil), &stdout, &stderr); code != 0 || stderr.Len() > 0 {
		t.Errorf("want 0 and nothing on stderr, got %d and %s", code, stderr.String())
	}
	checkGolden(t, "testdata/help.golden", stdout.String())
}

func checkGolden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != got {
		t.Errorf("want\n%s\ngot\n%s", want, got)
	}
}

func TestBuildNamesWhatIsKnown(t *testing.T) {
	if got, want := (build{}).orUnknown(), (build{version: "(devel)", revision: "unknown"}); want != got {
		t.Errorf("want %+v, got %+v", want, got)
	}
	version, revision = "v1.2.3", "abcdef"
	defer func() { version, revision = "", "" }()
	if got := currentBuild().String(); !strings.HasPrefix(got, "greyrelease v1.2.3, revision abcdef, go1.") {
		t.Errorf("want what the build set, got %s", got)
	}
}
