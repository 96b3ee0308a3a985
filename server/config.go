package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// config is everything that can be set. Its fields are described by the one
// table in flags.
type config struct {
	listen        string
	metricsListen string

	maxBody       int64
	maxBuffered   int64
	maxConcurrent int
	maxHeader     int64

	readHeaderTimeout time.Duration
	readTimeout       time.Duration
	writeTimeout      time.Duration
	idleTimeout       time.Duration

	drainDelay      time.Duration
	shutdownTimeout time.Duration

	tlsCertFile     string
	tlsKeyFile      string
	tlsClientCAFile string
	authTokenFile   string

	prometheusURL         string
	prometheusTokenFile   string
	prometheusCAFile      string
	prometheusTimeout     time.Duration
	prometheusConcurrency int

	recordDir  string
	recordSize int64
	debug      string

	logLevel slog.Level

	showVersion bool
}

// flags is the table of all settings: name, default, unit and meaning. Each is
// also read from the environment, see envName.
func (c *config) flags() *flag.FlagSet {
	set := flag.NewFlagSet("greyrelease", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	set.Usage = func() {}

	set.StringVar(&c.listen, "listen", ":8080",
		"`address` of /sync, /customize, /healthz and /readyz, as host:port")
	set.StringVar(&c.metricsListen, "metrics-listen", ":9090",
		"`address` of /metrics, as host:port; empty for no metrics")

	size := func(field *int64, name string, value int64, usage string) {
		*field = value
		set.Var((*byteSize)(field), name, usage)
	}
	size(&c.maxBody, "max-body", 16<<20,
		"largest `size` of a request, in bytes or as 16Mi; answered with 413 above it")
	size(&c.maxBuffered, "max-buffered", 256<<20,
		"largest `size` of all requests in memory together, in bytes or as 256Mi; answered with 429 above it. "+
			"The process needs up to about three times as much")
	set.IntVar(&c.maxConcurrent, "max-concurrent", 128,
		"largest `number` of requests being decided or waiting for a processor; answered with 429 above it")
	size(&c.maxHeader, "max-header", 16<<10,
		"largest `size` of a request's headers, in bytes or as 16Ki; answered with 431 above it")

	set.DurationVar(&c.readHeaderTimeout, "read-header-timeout", 5*time.Second,
		"longest `time` to send the headers of a request")
	set.DurationVar(&c.readTimeout, "read-timeout", 10*time.Second,
		"longest `time` to send a whole request; answered with 408 above it")
	set.DurationVar(&c.writeTimeout, "write-timeout", 30*time.Second,
		"longest `time` from the headers of a request to the end of its answer; more than read-timeout")
	set.DurationVar(&c.idleTimeout, "idle-timeout", 2*time.Minute,
		"longest `time` to keep an unused connection; more than the 90s after which Metacontroller drops it, "+
			"so that it never sends into a connection that is being closed")

	set.DurationVar(&c.drainDelay, "drain-delay", 5*time.Second,
		"`time` between saying not ready and closing the listener, for endpoints to be updated; may be 0")
	set.DurationVar(&c.shutdownTimeout, "shutdown-timeout", 20*time.Second,
		"longest `time` to finish requests after that; with drain-delay it should be below "+
			"the pod's terminationGracePeriodSeconds")

	set.StringVar(&c.tlsCertFile, "tls-cert-file", "",
		"`file` with the certificate of --listen and those between it and its authority, in PEM form; empty for plain HTTP. "+
			"A changed file is loaded by itself")
	set.StringVar(&c.tlsKeyFile, "tls-key-file", "",
		"`file` with the private key of the certificate, in PEM form")
	set.StringVar(&c.tlsClientCAFile, "tls-client-ca-file", "",
		"`file` with the authorities of client certificates, in PEM form; empty to ask for none. Calls of hooks without "+
			"such a certificate are answered with 401, probes need none. A changed file is loaded by itself")
	set.StringVar(&c.authTokenFile, "auth-token-file", "",
		"`file` with the bearer tokens that are accepted, one a line; empty to ask for none. Calls of hooks without one are "+
			"answered with 401, probes need none. A changed file is loaded by itself")

	set.StringVar(&c.prometheusURL, "prometheus-url", "",
		"`address` of the Prometheus that is asked for the metrics of spec.analysis, as http://prometheus.monitoring:9090; "+
			"empty for none, and releases with spec.analysis wait in their first batch")
	set.StringVar(&c.prometheusTokenFile, "prometheus-token-file", "",
		"`file` with the bearer token for it, read for each query; empty for none")
	set.StringVar(&c.prometheusCAFile, "prometheus-ca-file", "",
		"`file` with the certificates that it is trusted by, in PEM; empty for those of the system")
	set.DurationVar(&c.prometheusTimeout, "prometheus-timeout", 5*time.Second,
		"longest `time` that a query may take, at most 30s; no request waits for one")
	set.IntVar(&c.prometheusConcurrency, "prometheus-concurrency", 10,
		"largest `number` of queries at a time; others are made a second or two later")

	set.StringVar(&c.recordDir, "record-dir", "",
		"`folder` to record calls in, redacted, for greyrelease replay; empty to record none")
	size(&c.recordSize, "record-size", 100<<20,
		"largest `size` of the recorded calls, in bytes or as 100Mi; the oldest are removed")
	set.StringVar(&c.debug, "debug-listen", "",
		"`address` of /debug/pprof, as 127.0.0.1:6060; empty for none. What it shows may be secret: only loopback is taken")

	set.TextVar(&c.logLevel, "log-level", slog.LevelInfo,
		"least `level` to log: debug, info, warn or error")
	set.BoolVar(&c.showVersion, "version", false, "print the version and exit")
	return set
}

// envName is the environment variable of a flag: max-body is
// GREYRELEASE_MAX_BODY. No flag may begin with port or service: for a Service
// named greyrelease, Kubernetes sets GREYRELEASE_PORT_... and
// GREYRELEASE_SERVICE_... in every container of its namespace.
func envName(flagName string) string {
	return "GREYRELEASE_" + strings.ToUpper(strings.ReplaceAll(flagName, "-", "_"))
}

// byEnvironment tells which settings have an environment variable: all but the
// one that is a command.
func byEnvironment(f *flag.Flag) bool { return f.Name != "version" }

// parseConfig reads the command line and, for what is not set there, the
// environment. The error is flag.ErrHelp when help was asked for.
func parseConfig(args []string, lookup func(string) (string, bool)) (*config, error) {
	c := &config{}
	set := c.flags()
	if err := set.Parse(args); err != nil {
		return nil, err
	}
	if set.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", set.Arg(0))
	}
	given := map[string]bool{}
	set.Visit(func(f *flag.Flag) { given[f.Name] = true })
	var failed error
	set.VisitAll(func(f *flag.Flag) {
		value, present := lookup(envName(f.Name))
		if given[f.Name] || !present || !byEnvironment(f) {
			return
		}
		if err := f.Value.Set(value); err != nil {
			failed = errors.Join(failed, fmt.Errorf("invalid value %q for %s: %w", value, envName(f.Name), err))
		}
	})
	if failed != nil {
		return nil, failed
	}
	if c.showVersion {
		return c, nil
	}
	return c, c.validate()
}

// validate refuses settings under which the service would not serve, or not
// bound what it uses.
func (c *config) validate() error {
	var failed []error
	atLeastOne := func(name string, value int64) {
		if value < 1 {
			failed = append(failed, fmt.Errorf("%s must be at least 1", name))
		}
	}
	positive := func(name string, value time.Duration) {
		if value <= 0 {
			failed = append(failed, fmt.Errorf("%s must be more than 0", name))
		}
	}
	if c.listen == "" {
		failed = append(failed, errors.New("listen must not be empty"))
	}
	atLeastOne("max-body", c.maxBody)
	// More than any API server would hold in one object's children.
	if c.maxBody > 1<<30 {
		failed = append(failed, errors.New("max-body must be at most 1Gi"))
	}
	atLeastOne("max-concurrent", int64(c.maxConcurrent))
	atLeastOne("max-header", c.maxHeader)
	if c.maxBuffered < c.maxBody {
		failed = append(failed, errors.New("max-buffered must be at least max-body"))
	}
	positive("read-header-timeout", c.readHeaderTimeout)
	positive("read-timeout", c.readTimeout)
	positive("idle-timeout", c.idleTimeout)
	positive("shutdown-timeout", c.shutdownTimeout)
	positive("prometheus-timeout", c.prometheusTimeout)
	if c.prometheusTimeout > 30*time.Second {
		// A release gives a measurement up after a minute.
		failed = append(failed, errors.New("prometheus-timeout must be at most 30s"))
	}
	atLeastOne("prometheus-concurrency", int64(c.prometheusConcurrency))
	if c.prometheusURL != "" {
		if err := checkPrometheusURL(c.prometheusURL); err != nil {
			failed = append(failed, err)
		}
	}
	if c.writeTimeout <= c.readTimeout {
		failed = append(failed, errors.New("write-timeout must be more than read-timeout"))
	}
	if (c.tlsCertFile == "") != (c.tlsKeyFile == "") {
		failed = append(failed, errors.New("tls-cert-file and tls-key-file must be set together"))
	}
	if c.tlsClientCAFile != "" && c.tlsCertFile == "" {
		failed = append(failed, errors.New("tls-client-ca-file needs tls-cert-file and tls-key-file"))
	}
	if c.recordDir != "" && c.recordSize < 1<<20 {
		// A tenth of it is one file, which holds at least one call.
		failed = append(failed, errors.New("record-size must be at least 1Mi"))
	}
	if host, _, err := net.SplitHostPort(c.debug); c.debug != "" && (err != nil || !net.ParseIP(host).IsLoopback()) {
		failed = append(failed, errors.New("debug-listen must be an address of loopback, as 127.0.0.1:6060"))
	}
	if c.drainDelay < 0 {
		failed = append(failed, errors.New("drain-delay must not be negative"))
	}
	return errors.Join(failed...)
}

// printHelp writes the table of settings.
func printHelp(w io.Writer) {
	fmt.Fprint(w, `greyrelease answers Metacontroller's sync and customize hooks for GreyReleases.

Usage: greyrelease [flags]
       greyrelease replay FILE...

A flag that is not given is read from the environment variable beside it.

`)
	c := &config{}
	c.flags().VisitAll(func(f *flag.Flag) {
		unit, usage := flag.UnquoteUsage(f)
		if !byEnvironment(f) {
			fmt.Fprintf(w, "  --%s\n        %s\n", f.Name, usage)
			return
		}
		value := f.DefValue
		if f.Name == "log-level" {
			value = strings.ToLower(value)
		}
		if value == "" {
			value = "none"
		}
		fmt.Fprintf(w, "  --%s %s  (%s)\n        %s (default %s)\n", f.Name, unit, envName(f.Name), usage, value)
	})
}

// byteSize is a flag for a number of bytes in the notation of Kubernetes:
// 16777216, 16Mi or 16M.
type byteSize int64

func (b *byteSize) String() string {
	return resource.NewQuantity(int64(*b), resource.BinarySI).String()
}

func (b *byteSize) Set(text string) error {
	quantity, err := resource.ParseQuantity(text)
	if err != nil {
		return errors.New("not a size such as 16777216 or 16Mi")
	}
	n, exact := quantity.AsInt64()
	if !exact {
		return errors.New("not a whole number of bytes")
	}
	*b = byteSize(n)
	return nil
}
