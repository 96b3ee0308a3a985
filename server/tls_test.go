package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"greyrelease.example.com/test/authority"
)

// mounted is a folder of files that a test changes.
type mounted struct {
	*authority.Mounted
	t testing.TB
}

func mount(t testing.TB, files map[string][]byte) *mounted {
	t.Helper()
	m, err := authority.Mount(t.TempDir(), files)
	if err != nil {
		t.Fatal(err)
	}
	return &mounted{m, t}
}

func (m *mounted) change(files map[string][]byte) {
	m.t.Helper()
	if err := m.Change(files); err != nil {
		m.t.Fatal(err)
	}
}

// secured is a service whose clock is moved by hand.
type secured struct {
	*fixture
	offset *atomic.Int64
}

// startSecured is start with the listener as it is in a process.
func startSecured(t *testing.T, args ...string) *secured {
	t.Helper()
	c, err := parseConfig(args, lookupIn(nil))
	if err != nil {
		t.Fatal(err)
	}
	var offset atomic.Int64
	logs := &lockedBuffer{}
	log := slog.New(slog.NewJSONHandler(logs, nil))
	s := newService(c, echo(), func() time.Time { return testClock().Add(time.Duration(offset.Load())) }, newMetrics(build{"v1", "abc", "go1"}, time.Unix(1000, 0)), log)
	if err := s.secure(c); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(nil)
	server.Config = newServer(c, s.routes(), log)
	server.Listener = s.callers.transport.listen(server.Listener)
	server.Start()
	t.Cleanup(server.Close)
	return &secured{&fixture{service: s, url: server.URL, logs: logs}, &offset}
}

// later lets the service look at its files anew.
func (s *secured) later() { s.offset.Add(int64(lookEvery)) }

// caller is a client with a connection of its own.
func caller(t *testing.T, ca []byte, pair *authority.Pair) *http.Client {
	t.Helper()
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	config.RootCAs.AppendCertsFromPEM(ca)
	if pair != nil {
		certificate, err := tls.X509KeyPair(pair.Certificate, pair.Key)
		if err != nil {
			t.Fatal(err)
		}
		// As Metacontroller does: whatever authorities the server names.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &certificate, nil }
	}
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// over sends a request by TLS.
func (s *secured) over(client *http.Client, method, path string) (reply, error) {
	var body io.Reader
	if method == http.MethodPost {
		body = strings.NewReader(goodRequest)
	}
	request, err := http.NewRequest(method, "https://"+strings.TrimPrefix(s.url, "http://")+path, body)
	if err != nil {
		return reply{}, err
	}
	response, err := client.Do(request)
	if err != nil {
		return reply{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if response.ProtoMajor != 1 {
		return reply{}, fmt.Errorf("want HTTP/1, got %s", response.Proto)
	}
	return reply{response.StatusCode, string(text), response.Header}, err
}

func (s *secured) wantOver(t *testing.T, client *http.Client, code int, body string) {
	t.Helper()
	got, err := s.over(client, "POST", "/sync")
	if err != nil || got.code != code || !strings.Contains(got.body, body) {
		t.Errorf("want %d with %q, got %d %q, %v", code, body, got.code, got.body, err)
	}
}

func newAuthority(t *testing.T, name string) *authority.Authority {
	t.Helper()
	a, err := authority.New(name)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// signed are the files of a server's certificate.
func signed(t *testing.T, a *authority.Authority) map[string][]byte {
	t.Helper()
	pair, err := a.Server("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]byte{"tls.crt": pair.Certificate, "tls.key": pair.Key}
}

// A certificate is replaced while the service runs; one that does not fit its key
// leaves the one before in use, and the log says so once.
func TestACertificateIsLoadedWhenItChanges(t *testing.T) {
	first, second := newAuthority(t, "first"), newAuthority(t, "second")
	files := mount(t, signed(t, first))
	s := startSecured(t, "--tls-cert-file="+files.Path("tls.crt"), "--tls-key-file="+files.Path("tls.key"))
	wantBy := func(good, bad *authority.Authority) {
		t.Helper()
		s.wantOver(t, caller(t, good.PEM, nil), 200, goodAnswer[:20])
		if got, err := s.over(caller(t, bad.PEM, nil), "POST", "/sync"); err == nil {
			t.Errorf("want no trust in the other authority, got %d", got.code)
		}
	}
	wantBy(first, second)

	broken := signed(t, second)
	broken["tls.key"] = signed(t, second)["tls.key"]
	files.change(broken)
	for range 3 {
		s.later()
		wantBy(first, second)
	}
	files.change(map[string][]byte{"tls.crt": broken["tls.crt"]})
	for range 3 {
		s.later()
		wantBy(first, second)
	}

	files.change(signed(t, second))
	wantBy(first, second) // it was looked at a moment ago
	s.later()
	wantBy(second, first)

	var told []string
	for _, line := range s.lines(t) {
		if line["msg"] != "connection refused" {
			told = append(told, fmt.Sprint(line["level"], " ", line["msg"], ": ", line["what"]))
		}
	}
	want := []string{
		"ERROR cannot load changed files, the previous content stays in use: the TLS certificate",
		"ERROR cannot load changed files, the previous content stays in use: the TLS certificate",
		"INFO loaded changed files: the TLS certificate",
	}
	if strings.Join(want, "\n") != strings.Join(told, "\n") {
		t.Errorf("want the log\n%s\ngot\n%s", strings.Join(want, "\n"), strings.Join(told, "\n"))
	}
}

// Only callers with a certificate of the authority in the file come to the hooks. One
// that leaves the file is not trusted any more, not even on an open connection.
func TestClientCertificates(t *testing.T) {
	servers, first, second := newAuthority(t, "servers"), newAuthority(t, "first"), newAuthority(t, "second")
	files := mount(t, signed(t, servers))
	clients := mount(t, map[string][]byte{"ca.crt": first.PEM})
	s := startSecured(t, "--tls-cert-file="+files.Path("tls.crt"), "--tls-key-file="+files.Path("tls.key"),
		"--tls-client-ca-file="+clients.Path("ca.crt"))
	of := func(a *authority.Authority) *http.Client {
		pair, err := a.Client("metacontroller")
		if err != nil {
			t.Fatal(err)
		}
		return caller(t, servers.PEM, &pair)
	}
	const refused = "the call has no client certificate that is trusted (--tls-client-ca-file), see clientTLS of the CompositeController\n"
	known, stranger, nobody := of(first), of(second), caller(t, servers.PEM, nil)
	s.wantOver(t, known, 200, "")
	s.wantOver(t, nobody, 401, refused)
	if got, err := s.over(stranger, "POST", "/sync"); err == nil {
		t.Errorf("want the handshake refused, got %d %s", got.code, got.body)
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if got, err := s.over(nobody, "GET", path); err != nil || got.code != 200 {
			t.Errorf("%s: want probes open, got %d, %v", path, got.code, err)
		}
	}
	// A certificate of a server is none of a client.
	pair, err := first.Server("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := s.over(caller(t, servers.PEM, &pair), "POST", "/sync"); err == nil {
		t.Errorf("want the handshake refused, got %d %s", got.code, got.body)
	}

	// Both for a while, then the second alone.
	clients.change(map[string][]byte{"ca.crt": append(append([]byte{}, first.PEM...), second.PEM...)})
	s.later()
	other := of(second)
	s.wantOver(t, known, 200, "")
	s.wantOver(t, other, 200, "")
	clients.change(map[string][]byte{"ca.crt": second.PEM})
	s.later()
	s.wantOver(t, known, 401, refused)
	s.wantOver(t, other, 200, "")
	clients.change(map[string][]byte{"ca.crt": []byte("nothing")})
	s.later()
	s.wantOver(t, other, 200, "")
}

func TestBearerTokens(t *testing.T) {
	files := mount(t, map[string][]byte{"accepted": []byte("first-token\n")})
	s := startSecured(t, "--auth-token-file="+files.Path("accepted"))
	const (
		none  = "the call has no bearer token (--auth-token-file), see authorization of the CompositeController\n"
		wrong = "the bearer token of the call is not accepted (--auth-token-file), see authorization of the CompositeController\n"
	)
	check := func(want int, body string, authorizations ...string) {
		t.Helper()
		h := http.Header{}
		for _, a := range authorizations {
			h.Add("Authorization", a)
		}
		for _, path := range []string{"/sync", "/customize"} {
			got := s.do(t, "POST", path, h.Clone(), strings.NewReader(goodRequest))
			if got.code != want || want == 401 && (body != got.body || got.header.Get("WWW-Authenticate") != "Bearer") {
				t.Errorf("%s with %q: want %d %s, got %d %s", path, authorizations, want, body, got.code, got.body)
			}
		}
	}
	check(200, "", "Bearer first-token")
	check(200, "", "bearer  first-token ")
	check(401, none)
	check(401, none, "first-token")
	check(401, none, "Basic first-token")
	check(401, none, "Bearer first-token", "Bearer first-token")
	check(401, none, "Bearer")
	check(401, wrong, "Bearer first-toke")
	check(401, wrong, "Bearer first-token,")
	// The answer is the same whatever is asked: who may not call learns nothing.
	if got := s.do(t, "GET", "/sync", nil, nil); got.code != 401 {
		t.Errorf("want 401, got %d", got.code)
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if got := s.do(t, "GET", path, nil, nil); got.code != 200 {
			t.Errorf("%s: want probes open, got %d", path, got.code)
		}
	}

	files.change(map[string][]byte{"accepted": []byte("second-token\r\n\nfirst-token\n")})
	s.later()
	check(200, "", "Bearer first-token")
	check(200, "", "Bearer second-token")
	files.change(map[string][]byte{"accepted": []byte("second-token")})
	s.later()
	check(401, wrong, "Bearer first-token")
	check(200, "", "Bearer second-token")
	for _, bad := range []string{"", "\n \n", "two words", "caf\xc3\xa9"} {
		files.change(map[string][]byte{"accepted": []byte(bad)})
		s.later()
		check(200, "", "Bearer second-token")
		check(401, wrong, "Bearer first-token")
	}

	refusals := 0
	for _, line := range s.lines(t) {
		if line["msg"] == "call refused" {
			refusals++
		}
		if text := fmt.Sprint(line); strings.Contains(text, "-token") && !strings.Contains(text, "--auth-token-file") {
			t.Errorf("want no token in the log, got %s", text)
		}
	}
	if refusals != 1 {
		t.Errorf("want one line about refused calls in a minute, got %d", refusals)
	}
	s.offset.Add(int64(time.Minute))
	check(401, none)
	lines := s.lines(t)
	if last := lines[len(lines)-1]; last["msg"] != "call refused" || last["others"] == 0. {
		t.Errorf("want a line that counts the others, got %v", last)
	}
	s.wantMetric(t, `greyrelease_rejected_requests_total{limit="body"} 0`)
}

// A body that may not be sent is not read.
func TestACallerWhoMayNotSendsNothing(t *testing.T) {
	files := mount(t, map[string][]byte{"accepted": []byte("token")})
	s := startSecured(t, "--auth-token-file="+files.Path("accepted"))
	body := &endless{left: 200 << 20}
	request, err := http.NewRequest("POST", s.url+"/sync", body)
	if err != nil {
		t.Fatal(err)
	}
	if response, err := http.DefaultTransport.RoundTrip(request); err == nil {
		response.Body.Close()
		if response.StatusCode != 401 {
			t.Errorf("want 401, got %d", response.StatusCode)
		}
	}
	if most := int64(32 << 20); body.sent.Load() > most {
		t.Errorf("want at most %d bytes taken, got %d", most, body.sent.Load())
	}
	if n := s.limits.buffered.Load(); n != 0 {
		t.Errorf("want no memory charged, got %d bytes", n)
	}
}

func TestSecureRefusesWhatItCannotRead(t *testing.T) {
	a := newAuthority(t, "a")
	pair := signed(t, a)
	files := mount(t, map[string][]byte{"tls.crt": pair["tls.crt"], "tls.key": pair["tls.key"], "other.key": signed(t, a)["tls.key"], "empty": nil})
	good := []string{"--tls-cert-file=" + files.Path("tls.crt"), "--tls-key-file=" + files.Path("tls.key")}
	for _, row := range []struct {
		args []string
		want string
	}{
		{[]string{good[0], "--tls-key-file=" + files.Path("other.key")}, "cannot load the TLS certificate: tls: private key does not match public key"},
		{[]string{good[0], "--tls-key-file=" + files.Path("gone")}, "cannot load the TLS certificate: open " + files.Path("gone") + ": no such file or directory"},
		{append(good, "--tls-client-ca-file="+files.Path("empty")), "cannot load the authorities of clients: no certificate in PEM form found"},
		{[]string{"--auth-token-file=" + files.Path("empty")}, "cannot load the bearer tokens: the file holds no token"},
	} {
		var out lockedBuffer
		code := run(append(row.args, "--listen=127.0.0.1:0", "--metrics-listen="), lookupIn(nil), io.Discard, &out)
		if code != 1 || !strings.Contains(out.String(), `"error":"`+row.want+`"`) {
			t.Errorf("want 1 and %s, got %d and %s", row.want, code, out.String())
		}
	}
}

// A flood of broken handshakes is one line in a minute.
func TestHandshakesDoNotFloodTheLog(t *testing.T) {
	files := mount(t, signed(t, newAuthority(t, "a")))
	s := startSecured(t, "--tls-cert-file="+files.Path("tls.crt"), "--tls-key-file="+files.Path("tls.key"))
	for range 20 {
		conn := s.dial(t, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		if _, err := io.ReadAll(conn); err != nil {
			t.Fatal(err)
		}
	}
	if lines := s.lines(t); len(lines) != 1 || lines[0]["msg"] != "connection refused" {
		t.Errorf("want one line, got %v", lines)
	}
}

// A handshake that does not come to its end is cut off.
func TestSlowHandshakesAreCutOff(t *testing.T) {
	files := mount(t, signed(t, newAuthority(t, "a")))
	s := startSecured(t, "--tls-cert-file="+files.Path("tls.crt"), "--tls-key-file="+files.Path("tls.key"), "--read-header-timeout=1s")
	began := time.Now()
	for range 10 {
		if _, err := io.ReadAll(s.dial(t, "\x16\x03\x01")); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("want each cut off after about a second, got %s for ten", took)
	}
}
