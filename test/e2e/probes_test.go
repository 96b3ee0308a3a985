package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"greyrelease.example.com/test/e2e/cluster"
	"greyrelease.example.com/test/e2e/haproxy"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// shipped is the Deployment of the service, as the API server has it.
func shipped(t *testing.T) *appsv1.Deployment {
	t.Helper()
	d, err := client.AppsV1().Deployments(home).Get(t.Context(), "greyrelease", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestProbes runs the service with the arguments of the shipped Deployment, and asks it
// what kubelets would ask: it is ready and alive, told to end it is no longer ready, but
// alive and answering, and it ends by itself in the time that its pod has.
func TestProbes(t *testing.T) {
	t.Parallel()
	pod := shipped(t).Spec.Template.Spec
	c := pod.Containers[0]
	port := func(name string) string {
		i := slices.IndexFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == name })
		if i < 0 {
			t.Fatalf("want a port %s, got %v", name, c.Ports)
		}
		return fmt.Sprint(c.Ports[i].ContainerPort)
	}
	// Where the service listens without being told, which the shipped arguments do not.
	help, err := plane.Shell(t.Context(), plane.Programs["greyrelease"]+" --help 2>&1 || true")
	if err != nil {
		t.Fatal(err)
	}
	for flag, name := range map[string]string{"listen": "http", "metrics-listen": "metrics"} {
		if want := "(default :" + port(name) + ")"; !strings.Contains(help, want) || slices.ContainsFunc(c.Args, func(arg string) bool { return strings.HasPrefix(arg, "--"+flag) }) {
			t.Errorf("want --%s %s, the port %s of the container, and no such argument, got %v", flag, want, name, c.Args)
		}
	}
	free, err := haproxy.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", free)
	log := filepath.Join(plane.Dir, fmt.Sprintf("greyrelease-probed-%d.log", free))
	p, err := cluster.StartProgram("greyrelease", plane.Programs["greyrelease"], log,
		append(slices.Clone(c.Args), "--listen="+address, "--metrics-listen=127.0.0.1:0")...)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Kill()
	// ask is one look of a kubelet: the answer, or 0 for none.
	ask := func(probe *corev1.Probe) int {
		t.Helper()
		get := probe.HTTPGet
		if get == nil || get.Port.String() != "http" || get.Scheme != corev1.URISchemeHTTP {
			t.Fatalf("want a probe by HTTP at the port http, got %+v", probe)
		}
		client := http.Client{Timeout: time.Duration(probe.TimeoutSeconds) * time.Second}
		defer client.CloseIdleConnections()
		response, err := client.Get("http://" + address + get.Path)
		if err != nil {
			return 0
		}
		response.Body.Close()
		return response.StatusCode
	}
	if seen, ok := wait(func() (bool, string) { n := ask(c.ReadinessProbe); return n == 200, fmt.Sprint(n) }); !ok {
		t.Fatalf("want it ready, got %s", seen)
	}
	if got := ask(c.LivenessProbe); got != 200 {
		t.Errorf("want it alive, got %d", got)
	}

	// A call that has begun, and is finished only after the order to end.
	request, err := os.ReadFile(filepath.Join(plane.Root, "test", "fixtures", "healthy.request.json"))
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	half := len(request) / 2
	if _, err := fmt.Fprintf(conn, "POST /sync HTTP/1.1\r\nHost: hook\r\nContent-Length: %d\r\n\r\n%s", len(request), request[:half]); err != nil {
		t.Fatal(err)
	}
	told := time.Now()
	if err := syscall.Kill(p.Pid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if seen, ok := wait(func() (bool, string) { n := ask(c.ReadinessProbe); return n == 503, fmt.Sprint(n) }); !ok {
		t.Fatalf("want it not ready while it ends, got %s", seen)
	}
	noticed := time.Since(told)
	if got := ask(c.LivenessProbe); got != 200 {
		t.Errorf("want it alive while it ends, or a kubelet would kill it, got %d", got)
	}
	response, err := http.Post("http://"+address+"/sync", "application/json", bytes.NewReader(request))
	if err != nil {
		t.Fatalf("want new calls answered until endpoints have followed, got %v", err)
	}
	response.Body.Close()
	if response.StatusCode != 200 {
		t.Errorf("want new calls answered until endpoints have followed, got %s", response.Status)
	}
	if _, err := conn.Write(request[half:]); err != nil {
		t.Fatal(err)
	}
	if answer, err := io.ReadAll(conn); err != nil || !bytes.HasPrefix(answer, []byte("HTTP/1.1 200 OK\r\n")) || !bytes.Contains(answer, []byte(`"phase":"Healthy"`)) {
		t.Errorf("want the call that had begun answered, got %.300s, %v", answer, err)
	}
	if seen, ok := wait(func() (bool, string) { return !p.Alive(), "it runs" }); !ok {
		t.Fatalf("want it to end, got %s", seen)
	}
	took := time.Since(told)
	if grace := time.Duration(*pod.TerminationGracePeriodSeconds) * time.Second; took >= grace {
		t.Errorf("want it to end within %v, it took %v", grace, took)
	}
	text, err := os.ReadFile(log)
	if err != nil || !bytes.Contains(text, []byte(`"msg":"stopping"`)) {
		t.Errorf("want the order to end in the log, got %s, %v", text, err)
	}
	t.Logf("not ready %v after SIGTERM, ended after %v", noticed.Round(time.Millisecond), took.Round(100*time.Millisecond))
}

// TestDisruptionBudget drains the service's pods through the eviction API, as kubectl
// drain does. One may go; while its replacement is not ready no other one may, but one
// that is broken may always. It stops the kubelets for everybody, so it runs before the
// others.
func TestDisruptionBudget(t *testing.T) {
	d := shipped(t)
	budget, err := client.PolicyV1().PodDisruptionBudgets(home).Get(t.Context(), "greyrelease", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
	if err != nil || !selector.Matches(labels.Set(d.Spec.Template.Labels)) {
		t.Fatalf("want a budget that selects the pods %v, got %v, %v", d.Spec.Template.Labels, budget.Spec.Selector, err)
	}
	pods := func(isReady bool) []string {
		t.Helper()
		list, err := client.CoreV1().Pods(home).List(t.Context(), metav1.ListOptions{LabelSelector: selector.String()})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for i := range list.Items {
			if p := &list.Items[i]; p.DeletionTimestamp == nil && cluster.Ready(p) == isReady {
				names = append(names, p.Name)
			}
		}
		return names
	}
	allowed := func(want int32, healthy int) {
		t.Helper()
		seen, ok := wait(func() (bool, string) {
			b, err := client.PolicyV1().PodDisruptionBudgets(home).Get(t.Context(), "greyrelease", metav1.GetOptions{})
			if err != nil {
				return false, err.Error()
			}
			s := b.Status
			return s.DisruptionsAllowed == want && len(pods(true)) == healthy && s.ObservedGeneration == b.Generation && len(s.DisruptedPods) == 0,
				fmt.Sprintf("%d of %d healthy, %d may go", s.CurrentHealthy, s.ExpectedPods, s.DisruptionsAllowed)
		})
		if !ok {
			t.Fatalf("want %d healthy, of which %d may go, got %s", healthy, want, seen)
		}
	}
	evict := func(name string) error {
		return client.PolicyV1().Evictions(home).Evict(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: home}})
	}

	allowed(1, 2)
	// Without kubelets nothing becomes ready.
	signal := func(signal syscall.Signal) {
		t.Helper()
		if err := plane.Signal("kwok", signal); err != nil {
			t.Error(err)
		}
	}
	signal(syscall.SIGSTOP)
	defer signal(syscall.SIGCONT) // which one that runs does not mind
	if err := evict(pods(true)[0]); err != nil {
		t.Fatalf("want one pod to go, got %v", err)
	}
	allowed(0, 1)
	last := pods(true)[0]
	err = evict(last)
	if !apierrors.IsTooManyRequests(err) || !strings.Contains(err.Error(), "violate the pod's disruption budget") {
		t.Errorf("want the last one kept, got %v", err)
	}
	t.Logf("the second eviction: %v", err)
	if seen, ok := wait(func() (bool, string) { n := len(pods(false)); return n == 1, fmt.Sprint(n) }); !ok {
		t.Fatalf("want a replacement that is not ready, got %s", seen)
	}
	if err := evict(pods(false)[0]); err != nil {
		t.Errorf("want one to go that is not ready, got %v", err)
	}
	if got := pods(true); !slices.Equal(got, []string{last}) {
		t.Errorf("want %s to serve, got %v", last, got)
	}
	signal(syscall.SIGCONT)
	allowed(1, 2)
}
