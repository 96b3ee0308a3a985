package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
)

// hostile is what somebody may send to make the service fail, and its answer.
type hostile struct {
	// name and text are a row of the table in docs/security.md.
	name string
	// raw is what goes over the wire. With chunks it is as long as it is, without
	// saying so.
	raw  func() io.Reader
	code int
	text string
}

// posted is a request with this body, and more headers.
func posted(body string, headers ...string) func() io.Reader {
	return func() io.Reader {
		return strings.NewReader(fmt.Sprintf("POST /sync HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n%s\r\n%s", len(body), lines(headers), body))
	}
}

func lines(headers []string) string {
	var b strings.Builder
	for _, h := range headers {
		b.WriteString(h + "\r\n")
	}
	return b.String()
}

func raw(text string) func() io.Reader { return func() io.Reader { return strings.NewReader(text) } }

// release is a request about a release with this spec, these children and more at the
// top.
func release(spec, children, more string) string {
	return `{"parent":{"apiVersion":"greyrelease.example.com/v1","kind":"GreyRelease","metadata":{"name":"web","namespace":"shop","uid":"u","generation":1},"spec":` + spec +
		`},"children":{"Deployment.apps/v1":{` + children + `},"ConfigMap.v1":{},"Service.v1":{}}` + more + `}`
}

const plainSpec = `{"targetVersion":"1","replicas":1,"template":{"spec":{"containers":[{"name":"a","image":"a"}]}}}`

func zipped(n int64) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.Copy(w, &endless{left: n})
	_ = w.Close()
	return b.String()
}

// endlessly is a request whose body never says how long it is, and is 200 MB.
func endlessly() io.Reader {
	chunk := "10000\r\n" + strings.Repeat(" ", 1<<16) + "\r\n"
	readers := []io.Reader{strings.NewReader("POST /sync HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")}
	for range 200 << 4 {
		readers = append(readers, strings.NewReader(chunk))
	}
	return io.MultiReader(readers...)
}

func children(n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf(`"shop/d%d":{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d%d","namespace":"shop"},"spec":{"replicas":1}}`, i, i)
	}
	return strings.Join(all, ",")
}

var hostiles = []hostile{
	{"a gzip bomb, or any other encoding", posted(zipped(8<<20), "Content-Encoding: gzip"), 415,
		`content encoding "gzip" is not supported, send plain JSON`},
	{"more than `--max-body`, announced", raw("POST /sync HTTP/1.1\r\nHost: x\r\nContent-Length: 999999999\r\n\r\n"), 413,
		"the request is larger than 16777216 bytes (--max-body)"},
	{"more than that in chunks, without a length", endlessly, 413,
		"the request is larger than 16777216 bytes (--max-body)"},
	{"a body that nests without end", posted(strings.Repeat("[", 900_000)), 400,
		"cannot decode sync request: invalid character '[' exceeded max depth"},
	{"a template that does", posted(release(`{"template":`+strings.Repeat(`{"a":`, 100_000), "", "")), 400,
		"cannot decode sync request: invalid character '{' exceeded max depth"},
	{"an object that ends nowhere", posted(`{"parent":{"metadata":{"name":"web"`), 400,
		"cannot decode sync request: unexpected end of JSON input"},
	{"a second document behind the first", posted(release(plainSpec, "", "") + "{}"), 400,
		"cannot decode sync request: invalid character '{' after top-level value"},
	{"bytes that are no UTF-8", posted(release(`{"targetVersion":"`+"\xff"+`"}`, "", "")), 400,
		"cannot decode sync request: not UTF-8"},
	{"names in another case", posted(strings.Replace(release(plainSpec, "", ""), `"parent"`, `"PARENT"`, 1)), 400,
		"cannot decode sync request: parent is missing"},
	{"a parent, and then none", posted(release(plainSpec, "", `,"parent":null`)), 400,
		"cannot decode sync request: parent is missing"},
	{"a list in the place of the children", posted(`{"parent":{},"children":[]}`), 400,
		"cannot decode sync request: children: array is no object"},
	{"a child that is null", posted(release(plainSpec, `"shop/d":null`, "")), 400,
		`cannot decode sync request: children["Deployment.apps/v1"]["shop/d"] is null`},
	{"a child with a number of 400 digits", posted(release(plainSpec, `"shop/d":{"metadata":{"name":"d"},"spec":{"replicas":`+strings.Repeat("9", 400)+`}}`, "")), 400,
		"cannot decode sync request: children.spec.replicas: number 9999999999999999999999999999999999999999... is no whole number of 64 bits"},
	{"a method other than POST", raw("DELETE /sync HTTP/1.1\r\nHost: x\r\n\r\n"), 405,
		`method "DELETE" is not allowed, use POST`},
	{"HTTP/2 without TLS (h2c)", raw("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 405, ""},
	{"headers of more than `--max-header`", posted("{}", "X-Large: "+strings.Repeat("x", 64<<10)), 431,
		"431 Request Header Fields Too Large"},
	{"two lengths", raw("POST /sync HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}"), 400,
		"400 Bad Request"},
	{"a length below zero", raw("POST /sync HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n{}"), 400,
		"400 Bad Request"},
	{"a transfer encoding that is none", raw("POST /sync HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"), 501,
		"Unsupported transfer encoding"},
	{"a chunk that lies about its length", raw("POST /sync HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{}\r\n0\r\n\r\n"), 400,
		"cannot read the request: empty hex number for chunk length"},
	{"no HTTP at all", raw("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 hello\r\n\r\n"), 400,
		"400 Bad Request"},
}

// send sends what is hostile on a connection of its own. What comes back may come
// before all is sent.
func (f *fixture) send(t *testing.T, h hostile) (code int, text string) {
	t.Helper()
	conn := f.dial(t, "")
	go func() { _, _ = io.Copy(conn, h.raw()) }()
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Errorf("%s: want an answer, got %v", h.name, err)
		return 0, ""
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(response.Body)
	return response.StatusCode, strings.TrimSuffix(string(body), "\n")
}

// Each of them is answered as the documentation says, and costs nobody anything: not
// the memory, and not those who are served meanwhile.
func TestHostileInput(t *testing.T) {
	f := start(t, newHook(nil), append(slowMachine, "--max-buffered=32Mi")...)
	page, err := os.ReadFile("../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	good := release(plainSpec, "", "")
	ended := make(chan struct{})
	var served sync.WaitGroup
	rounds := 0
	served.Go(func() {
		for {
			select {
			case <-ended:
				return
			default:
			}
			got, err := f.try("POST", "/sync", nil, strings.NewReader(good))
			if err != nil || got.code != 200 && got.code != 429 {
				t.Errorf("want good calls served meanwhile, got %d %s, %v", got.code, got.body, err)
				return
			}
			rounds++
		}
	})
	grown := watchHeap()
	for _, h := range hostiles {
		code, text := f.send(t, h)
		if h.code != code || !strings.HasPrefix(text, h.text) {
			t.Errorf("%s: want %d %s, got %d %.200s", h.name, h.code, h.text, code, text)
		}
		row := fmt.Sprintf("\n| %s | %d | %s |", h.name, h.code, told(h.text))
		if !strings.Contains(string(page), row) {
			t.Errorf("want in docs/security.md:%s", row)
		}
	}
	most := grown()
	close(ended)
	served.Wait()
	if rounds == 0 {
		t.Error("want good calls served meanwhile, got none")
	}
	if limit := int64(128 << 20); most > limit {
		t.Errorf("want the heap to grow by at most %d bytes, got %d", limit, most)
	}
	if n := f.limits.buffered.Load(); n != 0 {
		t.Errorf("want no memory charged at rest, got %d bytes", n)
	}
	f.wantMetric(t, "greyrelease_panics_total 0")
	f.wantMetric(t, "greyrelease_invariant_breaches_total 0")
	_, table, _ := strings.Cut(string(page), "\n## Hostile input\n")
	table, _, _ = strings.Cut(table, "\n## ")
	if rows := strings.Count(table, "\n| ") - 1; rows != len(hostiles) {
		t.Errorf("want %d rows in docs/security.md, got %d", len(hostiles), rows)
	}
	t.Logf("%d good calls meanwhile, the heap grew by %d bytes", rounds, most)
}

// told is a text as the table has it.
func told(text string) string {
	if text == "" {
		return "nothing"
	}
	return "`" + text + "`"
}

// What only looks hostile is served: ten thousand children, requests that do not wait
// for the answer to the one before, a client that would rather speak HTTP/2, keys that
// come twice, numbers that no field reads.
func TestUnusualInputIsServed(t *testing.T) {
	f := start(t, newHook(nil), slowMachine...)
	for name, body := range map[string]string{
		"10000 children":                  release(plainSpec, children(10_000), ""),
		"a key twice":                     release(plainSpec, "", `,"finalizing":true,"finalizing":false`),
		"a huge number that nobody reads": release(plainSpec, `"shop/d":{"metadata":{"name":"d","namespace":"shop"},"spec":{"x":1e400}}`, ""),
		"deep, but not too deep":          release(plainSpec, "", `,"x":`+strings.Repeat("[", 5000)+strings.Repeat("]", 5000)),
	} {
		if got := f.post(t, body); got.code != 200 || !strings.Contains(got.body, `"phase":"Pending"`) {
			t.Errorf("%s: want 200, got %d %.200s", name, got.code, got.body)
		}
	}
	// A key that is twice in a spec, which the API server does not let through: nobody
	// could say which of the two is meant.
	got := f.post(t, release(`{"targetVersion":"1","targetVersion":"2","replicas":1,"template":{"spec":{"containers":[{"name":"a","image":"a"}]}}}`, "", ""))
	if want := `name \"targetVersion\" stands twice in one object`; got.code != 200 || !strings.Contains(got.body, `"phase":"Invalid"`) || !strings.Contains(got.body, want) {
		t.Errorf("want an invalid spec with %s, got %d %s", want, got.code, got.body)
	}

	one := "POST /sync HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"
	conn := f.dial(t, strings.Repeat(one, 100))
	read := bufio.NewReader(conn)
	for i := range 100 {
		response, err := http.ReadResponse(read, nil)
		if err != nil {
			t.Fatalf("want 100 answers in a row, got %d and %v", i, err)
		}
		_, _ = io.Copy(io.Discard, response.Body)
		response.Body.Close()
		if response.StatusCode != 400 {
			t.Fatalf("want 400, got %s", response.Status)
		}
	}
	body := release(plainSpec, "", "")
	conn = f.dial(t, fmt.Sprintf("POST /sync HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\nContent-Length: %d\r\n\r\n%s", len(body), body))
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != 200 || response.ProtoMajor != 1 {
		t.Errorf("want 200 by HTTP/1.1, got %s %s", response.Proto, response.Status)
	}
}

// Nothing of a spec comes into the log, whatever happens to the request: not even at
// the most talkative level, not in the text of an error.
func TestSecretsAreNotLogged(t *testing.T) {
	const secret = "hunter2-in-env"
	f := start(t, newHook(nil), "--log-level=debug")
	spec := `{"targetVersion":"1","replicas":1,"template":{"spec":{"containers":[{"name":"a","image":"a","env":[{"name":"PASSWORD","value":"` + secret + `"}]}]}}}`
	for name, body := range map[string]string{
		"a release":        release(spec, "", ""),
		"cut off":          release(spec, "", "")[:250+len(spec)/2],
		"a wrong child":    release(spec, `"shop/d":{"spec":{"replicas":"`+secret+`"}}`, ""),
		"no template":      release(`{"targetVersion":"1","template":{"spec":{"containers":"`+secret+`"}}}`, "", ""),
		"an odd command":   strings.Replace(release(spec, "", ""), `"uid"`, `"annotations":{"other.example.com/x":"`+secret+`"},"uid"`, 1),
		"another document": release(spec, "", "") + secret,
		"a stale record":   strings.Replace(release(spec, "", ""), `"ConfigMap.v1":{}`, `"ConfigMap.v1":{"shop/web-rollout":{"metadata":{"name":"web-rollout","namespace":"shop"},"data":{"record.json":"{\"format\":99,\"x\":\"`+secret+`\"}"}}}`, 1),
	} {
		f.post(t, body)
		if text := f.logs.String(); strings.Contains(text, secret) {
			t.Fatalf("%s: want no content in the log, got %s", name, text)
		}
	}
	if len(f.lines(t)) < 3 {
		t.Errorf("want some lines in the log, got %v", f.lines(t))
	}
}
