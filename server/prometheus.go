package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"greyrelease.example.com/hooks/greyrelease"
)

// prometheus asks the one Prometheus that the operator named. Nothing of an address
// ever comes from a release.
type prometheus struct {
	endpoint  url.URL // without a query
	client    *http.Client
	tokenFile string // read for each query, because tokens are replaced; "" for none
	timeout   time.Duration
}

const (
	// maxAnswer is the largest answer that is read. One sample with its labels is a
	// few KB at most.
	maxAnswer = 1 << 20
	// maxComplaint is how much of what Prometheus says is shown to users, in bytes.
	maxComplaint = 160
	// maxToken is the longest token that is sent.
	maxToken = 64 << 10
)

// Outcomes of queries, as values of a metric's label.
const (
	outcomeValue        = "value"
	outcomeNoData       = "no_data"
	outcomeNotOne       = "not_one_sample"
	outcomeRefused      = "query_refused"
	outcomeWarning      = "warning"
	outcomeTooLarge     = "too_large"
	outcomeTimeout      = "timeout"
	outcomeUnreachable  = "unreachable"
	outcomeUnauthorized = "unauthorized"
	outcomeError        = "error"
	outcomeBusy         = "busy"
)

var outcomes = []string{
	outcomeValue, outcomeNoData, outcomeNotOne, outcomeRefused, outcomeWarning, outcomeTooLarge, outcomeTimeout,
	outcomeUnreachable, outcomeUnauthorized, outcomeError, outcomeBusy,
}

// newPrometheus is nil without an address.
func newPrometheus(c *config) (*prometheus, error) {
	if c.prometheusURL == "" {
		return nil, nil
	}
	endpoint, err := url.Parse(c.prometheusURL)
	if err != nil {
		return nil, fmt.Errorf("cannot read --prometheus-url: %w", errors.Unwrap(err))
	}
	endpoint = endpoint.JoinPath("api/v1/query")
	transport := &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: c.prometheusTimeout}).DialContext,
		TLSHandshakeTimeout:    c.prometheusTimeout,
		MaxConnsPerHost:        c.prometheusConcurrency,
		MaxIdleConnsPerHost:    c.prometheusConcurrency,
		IdleConnTimeout:        time.Minute,
		MaxResponseHeaderBytes: 64 << 10,
		DisableCompression:     true, // no small answer becomes a large one
		ForceAttemptHTTP2:      true,
	}
	if c.prometheusCAFile != "" {
		text, err := os.ReadFile(c.prometheusCAFile)
		if err != nil {
			return nil, fmt.Errorf("cannot read --prometheus-ca-file: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("cannot read --prometheus-ca-file: %s holds no certificate in PEM", c.prometheusCAFile)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	return &prometheus{
		endpoint: *endpoint, tokenFile: c.prometheusTokenFile, timeout: c.prometheusTimeout,
		client: &http.Client{
			Transport: transport,
			// A token is for the address that the operator named, and for no other.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// checkPrometheusURL says what is wrong with an address.
func checkPrometheusURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return errors.New("prometheus-url must be an address as http://prometheus.monitoring:9090")
	case u.User != nil:
		return errors.New("prometheus-url must not hold a password: use prometheus-token-file")
	case u.RawQuery != "" || u.Fragment != "":
		return errors.New("prometheus-url must end with its path")
	}
	return nil
}

// noPrometheus is said of an answer that makes no sense.
const noPrometheus = "what answered is no Prometheus: its operator checks --prometheus-url"

// refusal is why there is no value.
type refusal struct {
	outcome string
	// text is for users: one line without addresses and without anything secret.
	text string
	// cause is for the log; it may be nil.
	cause error
}

func refuse(outcome, format string, args ...any) *refusal {
	return &refusal{outcome: outcome, text: fmt.Sprintf(format, args...)}
}

// ask makes one query. It takes no longer than the timeout.
func (p *prometheus) ask(ctx context.Context, q greyrelease.Query) (value string, r *refusal) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	request, r := p.request(ctx, q)
	if r != nil {
		return "", r
	}
	response, err := p.client.Do(request)
	if err != nil {
		return "", p.unanswered(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return "", p.unanswered(err)
	case len(text) > maxAnswer:
		return "", refuse(outcomeTooLarge, "the result is larger than 1 MiB: aggregate it to one sample, as by sum(...)")
	}
	return read(response.StatusCode, text)
}

func (p *prometheus) request(ctx context.Context, q greyrelease.Query) (*http.Request, *refusal) {
	at := p.endpoint
	at.RawQuery = url.Values{
		"query":   {q.Text},
		"time":    {strconv.FormatInt(q.Time.Unix(), 10)},
		"timeout": {p.timeout.String()},
		// Two are enough to see that it is not one. Prometheus before 2.54 ignores it.
		"limit": {"2"},
	}.Encode()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, &refusal{outcomeError, "the query cannot be sent", err}
	}
	request.Header.Set("Accept", "application/json")
	if p.tokenFile == "" {
		return request, nil
	}
	token, err := readToken(p.tokenFile)
	if err != nil {
		return nil, &refusal{outcomeUnauthorized, "the service has no token for Prometheus: its operator checks --prometheus-token-file", err}
	}
	request.Header.Set("Authorization", "Bearer "+token)
	return request, nil
}

// readToken reads a file that may be written anew at any time.
func readToken(name string) (string, error) {
	file, err := os.Open(name)
	if err != nil {
		return "", fmt.Errorf("cannot read token: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxToken))
	if err != nil {
		return "", fmt.Errorf("cannot read token: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return "", fmt.Errorf("cannot read token: %s holds none", name)
	}
	return token, nil
}

// unanswered says why nothing came. The error itself holds the address, so it is for
// the log.
func (p *prometheus) unanswered(err error) *refusal {
	var (
		dns       *net.DNSError
		authority *tls.CertificateVerificationError
		network   net.Error
	)
	r := &refusal{outcomeUnreachable, "Prometheus cannot be reached", err}
	switch {
	case errors.As(err, &network) && network.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return &refusal{outcomeTimeout, fmt.Sprintf("Prometheus gave no answer within %s", p.timeout), err}
	case errors.As(err, &dns):
		r.text += ": its name is not known"
	case errors.As(err, &authority):
		r.text += ": its certificate is not trusted (see --prometheus-ca-file)"
	case errors.Is(err, syscall.ECONNREFUSED):
		r.text += ": connection refused"
	}
	return r
}

// result is an answer of Prometheus' HTTP API.
type result struct {
	Status string `json:"status"`
	Data   struct {
		ResultType string          `json:"resultType"`
		Result     json.RawMessage `json:"result"`
	} `json:"data"`
	ErrorType string   `json:"errorType"`
	Error     string   `json:"error"`
	Warnings  []string `json:"warnings"`
}

// read finds the one value in an answer.
func read(code int, text []byte) (value string, r *refusal) {
	var got result
	err := json.Unmarshal(text, &got)
	switch {
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return "", refuse(outcomeUnauthorized, "Prometheus refuses the service (%d): its operator checks --prometheus-token-file", code)
	case code >= 300 && code < 400:
		return "", refuse(outcomeError, "Prometheus redirects to elsewhere (%d), which is not followed: its operator checks --prometheus-url", code)
	case err == nil && got.Status == "error" && got.ErrorType == "timeout":
		return "", refuse(outcomeTimeout, "Prometheus gave the query up: %s", complaint(got.Error))
	case err == nil && got.Status == "error" && code < 500:
		return "", refuse(outcomeRefused, "Prometheus refuses the query: %s", complaint(got.Error))
	case err == nil && got.Status == "error":
		return "", refuse(outcomeError, "Prometheus failed (%d): %s", code, complaint(got.Error))
	case code != http.StatusOK:
		return "", refuse(outcomeError, "Prometheus answered with %d", code)
	case err != nil || got.Status != "success":
		return "", refuse(outcomeError, noPrometheus)
	case len(got.Warnings) > 0:
		// Such as a part of the data that could not be read: the value may be wrong.
		return "", refuse(outcomeWarning, "Prometheus warns: %s", complaint(got.Warnings[0]))
	}
	return single(got.Data.ResultType, got.Data.Result)
}

// single is the value of a scalar, or of a vector of one sample.
func single(kind string, raw json.RawMessage) (value string, r *refusal) {
	var samples []struct {
		Value     json.RawMessage `json:"value"`
		Histogram json.RawMessage `json:"histogram"`
	}
	switch kind {
	case "scalar":
		return sample(raw)
	case "vector":
		if json.Unmarshal(raw, &samples) != nil {
			return "", refuse(outcomeError, noPrometheus)
		}
	case "matrix":
		return "", refuse(outcomeNotOne, "the result is a range of samples: apply a function to it, as rate(...)")
	default:
		return "", refuse(outcomeNotOne, "the result is a %.20q and no number", kind)
	}
	switch {
	case len(samples) == 0:
		return "", refuse(outcomeNoData, "the query returned no data")
	case len(samples) > 1:
		return "", refuse(outcomeNotOne, "the query returned more than one sample: aggregate them, as by sum(...)")
	case len(samples[0].Histogram) > 0:
		return "", refuse(outcomeNotOne, "the result is a histogram: ask for a number, as by histogram_quantile(...)")
	}
	return sample(samples[0].Value)
}

// sample is the value of an instant with its value, as in [1435781451.781,"0.5"].
func sample(raw json.RawMessage) (value string, r *refusal) {
	var pair []json.RawMessage
	if json.Unmarshal(raw, &pair) != nil || len(pair) != 2 || json.Unmarshal(pair[1], &value) != nil || len(value) > 40 {
		return "", refuse(outcomeError, noPrometheus)
	}
	if _, err := strconv.ParseFloat(value, 64); err != nil && !errors.Is(err, strconv.ErrRange) {
		return "", refuse(outcomeError, noPrometheus)
	}
	return value, nil
}

// complaint is one line of what Prometheus said.
func complaint(text string) string {
	text = oneLine(text)
	if len(text) > maxComplaint {
		text = strings.ToValidUTF8(text[:maxComplaint], "") + "..."
	}
	return text
}
