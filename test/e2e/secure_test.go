package e2e

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"greyrelease.example.com/hooks/greyrelease"
	"greyrelease.example.com/test/authority"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// home is the namespace of the service.
const home = "greyrelease-system"

// secured is a cluster whose hooks are called by TLS, with a client certificate and a
// bearer token. What the service has mounted changes as kubelets change it.
type secured struct {
	*story
	servers, clients          *authority.Authority
	certificate, trust, token *authority.Mounted
	edits                     int64
}

// mount makes what a pod would find at a path.
func (s *secured) mount(files map[string][]byte) *authority.Mounted {
	s.Helper()
	dir, err := os.MkdirTemp(plane.Dir, "mounted-")
	s.must(err)
	m, err := authority.Mount(dir, files)
	s.must(err)
	return m
}

// keepSecret and keepCA write what the manifests refer to.
func (s *secured) keepSecret(name string, data map[string][]byte) {
	s.Helper()
	secrets := client.CoreV1().Secrets(home)
	err := secrets.Delete(s.ctx, name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		s.Fatal(err)
	}
	_, err = secrets.Create(s.ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}, metav1.CreateOptions{})
	s.must(err)
}

func (s *secured) keepCA(name string, pem []byte) {
	s.Helper()
	maps := client.CoreV1().ConfigMaps(home)
	err := maps.Delete(s.ctx, name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		s.Fatal(err)
	}
	_, err = maps.Create(s.ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"ca.crt": string(pem)}}, metav1.CreateOptions{})
	s.must(err)
}

// authority makes one that nobody trusts yet.
func (s *secured) authority(name string) *authority.Authority {
	s.Helper()
	a, err := authority.New(name)
	s.must(err)
	return a
}

// serverFiles are a new certificate of the service.
func (s *secured) serverFiles(a *authority.Authority) map[string][]byte {
	s.Helper()
	pair, err := a.Server("127.0.0.1", "greyrelease.greyrelease-system")
	s.must(err)
	return map[string][]byte{"tls.crt": pair.Certificate, "tls.key": pair.Key}
}

// show gives Metacontroller a new certificate of its own.
func (s *secured) show(a *authority.Authority) {
	s.Helper()
	pair, err := a.Client("metacontroller")
	s.must(err)
	s.keepSecret("greyrelease-client", map[string][]byte{"tls.crt": pair.Certificate, "tls.key": pair.Key})
}

// restart is what brings Metacontroller to read again what the CompositeController
// refers to.
func (s *secured) restart() {
	s.Helper()
	plane.End("metacontroller", false)
	s.must(plane.StartMetacontroller(s.ctx))
}

// serial is that of the certificate that the service shows in a new connection.
func (s *secured) serial() string {
	s.Helper()
	conn, err := tls.Dial("tcp", plane.ServiceAddress(), &tls.Config{InsecureSkipVerify: true})
	s.must(err)
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
}

// refusals are the events that tell users of a call that failed, each once.
func (s *story) refusals() []string {
	s.Helper()
	events, err := client.CoreV1().Events(s.namespace).List(s.ctx, metav1.ListOptions{FieldSelector: "involvedObject.kind=GreyRelease,reason=SyncError"})
	s.must(err)
	var texts []string
	for i := range events.Items {
		texts = append(texts, events.Items[i].Message)
	}
	return texts
}

// asked edits the release, and waits until the service has answered for it.
func (s *secured) asked() {
	s.Helper()
	s.edits++
	s.merge(object{"spec": object{"revisionHistoryLimit": 10 + s.edits}})
	s.until("an answer about the edit", func() (bool, string) {
		_, current := s.status()
		return current, "none"
	})
}

// secure installs manifests/components as shipped, with an authority of the test's own.
func secure(s *story) *secured {
	s.Helper()
	x := &secured{story: s}
	x.servers, x.clients = x.authority("servers"), x.authority("clients")
	x.certificate = x.mount(x.serverFiles(x.servers))
	x.trust = x.mount(map[string][]byte{"ca.crt": x.clients.PEM})
	x.token = x.mount(map[string][]byte{"accepted": []byte("the-first-token\n")})
	x.keepCA("greyrelease-ca", x.servers.PEM)
	x.show(x.clients)
	x.keepSecret("greyrelease-token", map[string][]byte{"token": []byte("the-first-token")})

	use := func(ctx context.Context, components, flags []string) error {
		plane.End("metacontroller", false)
		plane.End("greyrelease", false)
		plane.Components, plane.ServiceFlags = components, flags
		if err := plane.StartService(ctx); err != nil {
			return err
		}
		if err := plane.Install(ctx); err != nil {
			return err
		}
		return plane.StartMetacontroller(ctx)
	}
	before := plane.ServiceFlags
	s.Cleanup(func() {
		if err := use(context.Background(), nil, before); err != nil {
			s.Error(err)
		}
	})
	s.must(use(s.ctx, []string{"tls", filepath.Join("tls", "customize"), "mtls", "token"}, []string{
		"--tls-cert-file=" + x.certificate.Path("tls.crt"), "--tls-key-file=" + x.certificate.Path("tls.key"),
		"--tls-client-ca-file=" + x.trust.Path("ca.crt"), "--auth-token-file=" + x.token.Path("accepted"),
	}))
	return x
}

// TestSecured carries a release through with hooks that are called by TLS alone, with a
// client certificate and a bearer token, each of which is replaced in the middle of it.
func TestSecured(t *testing.T) {
	s := secure(begin(t, "web"))
	halfway(s.story)
	first := s.serial()

	// A new certificate by the same authority: nobody else takes part.
	s.must(s.certificate.Change(s.serverFiles(s.servers)))
	s.until("the new certificate", func() (bool, string) { return s.serial() != first, first })
	s.asked()

	// A certificate that does not fit its key: the one in use stays.
	second, broken := s.serial(), s.serverFiles(s.servers)
	broken["tls.key"] = s.serverFiles(s.servers)["tls.key"]
	s.must(s.certificate.Change(broken))
	time.Sleep(2 * time.Second)
	if got := s.serial(); got != second {
		t.Errorf("want the certificate %s to stay, got %s", second, got)
	}
	s.asked()

	// New authorities on both sides and a new token, as docs/security.md says: accept
	// both, change what is shown, accept the new alone.
	servers, clients := s.authority("servers 2"), s.authority("clients 2")
	s.must(s.trust.Change(map[string][]byte{"ca.crt": append(append([]byte{}, s.clients.PEM...), clients.PEM...)}))
	s.must(s.token.Change(map[string][]byte{"accepted": []byte("the-first-token\nthe-second-token\n")}))
	s.keepCA("greyrelease-ca", append(append([]byte{}, s.servers.PEM...), servers.PEM...))
	s.show(clients)
	s.keepSecret("greyrelease-token", map[string][]byte{"token": []byte("the-second-token")})
	time.Sleep(2 * time.Second)
	s.restart()
	s.asked()
	s.must(s.certificate.Change(s.serverFiles(servers)))
	s.must(s.trust.Change(map[string][]byte{"ca.crt": clients.PEM}))
	s.must(s.token.Change(map[string][]byte{"accepted": []byte("the-second-token")}))
	s.until("the new certificate", func() (bool, string) { return s.serial() != second, second })
	s.asked()
	s.stillHalfway()
	if got := s.refusals(); len(got) > 0 {
		t.Errorf("want no call refused while all was replaced, got %q", got)
	}

	// A token that is not accepted: nothing is written, the user is told, and the
	// release goes on once it is put right.
	s.must(s.token.Change(map[string][]byte{"accepted": []byte("a-third-token")}))
	time.Sleep(2 * time.Second)
	s.guard.limit(6 + surge(6))
	s.kubectl("scale", "gr", "web", "--replicas=6")
	s.until("an event", func() (bool, string) { return len(s.refusals()) > 0, "none" })
	const want = "unsupported status code: 401 body: the bearer token of the call is not accepted (--auth-token-file), see authorization of the CompositeController"
	if got := s.refusals(); !strings.Contains(got[0], want) {
		t.Errorf("want an event with %q, got %q", want, got)
	}
	s.stays(map[string]int{"1.0": 2, "2.0": 2})
	s.must(s.token.Change(map[string][]byte{"accepted": []byte("the-second-token")}))
	s.pods(map[string]int{"1.0": 4, "2.0": 2})
	s.command("promote")
	s.settled("2.0")
	s.pods(map[string]int{"2.0": 6})
	s.made(map[string]int{"1.0": 6, "2.0": 6})
	s.phase(greyrelease.PhaseHealthy)
	s.idle()

	text, err := os.ReadFile(filepath.Join(plane.Dir, "greyrelease.log"))
	s.must(err)
	for _, secret := range []string{"the-first-token", "the-second-token", "a-third-token", "PRIVATE KEY"} {
		if strings.Contains(string(text), secret) {
			t.Errorf("want no %s in the log of the service", secret)
		}
	}
	if !strings.Contains(string(text), `"msg":"cannot load changed files, the previous content stays in use","what":"the TLS certificate"`) {
		t.Error("want the certificate that could not be used in the log")
	}
}

// TestSecuredWithoutCredentials asks a secured service without what it wants to see.
func TestSecuredWithoutCredentials(t *testing.T) {
	s := secure(begin(t, "web"))
	for _, path := range []string{"healthz", "readyz"} {
		out, err := plane.Shell(s.ctx, fmt.Sprintf("curl -sk -o /dev/null -w '%%{http_code}' %s/%s", plane.ServiceURL(), path))
		s.must(err)
		if out != "200" {
			t.Errorf("%s: want probes open, got %s", path, out)
		}
	}
	out, err := plane.Shell(s.ctx, fmt.Sprintf("curl -sk -w '%%{http_code}' -d '{}' %s/sync", plane.ServiceURL()))
	s.must(err)
	if !strings.HasPrefix(out, "the call has no client certificate") || !strings.HasSuffix(out, "401") {
		t.Errorf("want 401, got %s", out)
	}
}
