// Command metacontroller is a double of Metacontroller for tests: it does for
// CompositeControllers what Metacontroller 4.17 does, on client-go. The rules of its
// two apply modes are those of test/sim/apply, which the simulator uses as well.
// test/e2e/compare tells both the same stories and holds their writes together.
//
// The same are
//
//   - caches: one for each kind, filled anew when the CompositeController is edited,
//     never awaited after a write; what wakes a parent and what does not
//   - claims: adoption by the generated label after a look at the live parent, release,
//     in the order of the CompositeController
//   - requests and answers in both versions of hooks, down to the error texts; customize
//     hooks, their rules and how long an answer is kept; finalize hooks and the finalizer;
//     caBundle, clientTLS and authorization, read once
//   - writes: their kind, their order (deletions, then kind by kind, then the status),
//     their preconditions, their field manager, what is skipped, and the update methods
//     InPlace, Recreate and OnDelete
//   - errors: which are swallowed, which are events (reason, type and text) and come
//     back after how long; 429 with its time
//   - the status: replaced whole, stamped with the generation, four tries
//   - the flags of the original that tests set, so that either can be started in the
//     other's place
//
// Left out on purpose, and refused with an error where a CompositeController asks for it:
// the rolling update methods (and with them ControllerRevisions), selectors of parents,
// selectors that are not generated, etags, basicAuth. DecoratorControllers, leader
// election and metrics are not there at all. A parent has to have a status subresource,
// which is not checked. A kind that becomes known is found at once and not at the next
// discovery.
package main

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
)

// The apply strategies.
const (
	dynamicApply    = "dynamic-apply"
	serverSideApply = "server-side-apply"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "path of a kubeconfig")
	qps := flag.Float64("client-go-qps", 5, "requests per second")
	burst := flag.Int("client-go-burst", 10, "requests at once")
	eventsQPS := flag.Float64("events-qps", 1./300., "events per second for each object")
	eventsBurst := flag.Int("events-burst", 25, "events at once for each object")
	flag.String("metrics-address", ":9999", "not served")
	health := flag.String("health-probe-bind-address", ":8081", "address of /healthz and /readyz")
	var s settings
	flag.StringVar(&s.strategy, "apply-strategy", dynamicApply, "dynamic-apply or server-side-apply")
	flag.StringVar(&s.fieldManager, "apply-strategy-ssa-field-manager", "metacontroller", "owner of what is applied")
	flag.IntVar(&s.workers, "workers", 5, "syncs at once")
	flag.DurationVar(&s.resync, "cache-flush-interval", 30*time.Minute, "how often everything is synced")
	flag.DurationVar(&s.discovery, "discovery-interval", 30*time.Second, "how often kinds that are not known are looked for")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	correlator := record.CorrelatorOptions{BurstSize: *eventsBurst, QPS: float32(*eventsQPS)}
	err := run(ctx, *kubeconfig, float32(*qps), *burst, correlator, *health, s)
	if err != nil {
		fmt.Fprintf(os.Stderr, "metacontroller: %v\n", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, kubeconfig string, qps float32, burst int, correlator record.CorrelatorOptions, health string, s settings) error {
	if s.strategy != dynamicApply && s.strategy != serverSideApply {
		return fmt.Errorf("unknown apply strategy: %s", s.strategy)
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("cannot read kubeconfig: %w", err)
	}
	// Fields that updates set are owned by whom the user agent names.
	config.QPS, config.Burst, config.UserAgent = qps, burst, "metacontroller"
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("cannot make client: %w", err)
	}
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("cannot make client: %w", err)
	}
	discoverer, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return fmt.Errorf("cannot make client: %w", err)
	}
	broadcaster := record.NewBroadcasterWithCorrelatorOptions(correlator)
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: clientset.CoreV1().Events("")})
	defer broadcaster.Shutdown()
	go serveHealth(health)

	o := &operator{
		settings: s,
		client:   client,
		mapper:   restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discoverer)),
		events:   broadcaster.NewRecorder(runtime.NewScheme(), corev1.EventSource{Component: "metacontroller"}),
		applied:  newLastApplied(),
		running:  map[string]*controller{},
	}
	return o.run(ctx)
}

func serveHealth(address string) {
	fine := func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") }
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", fine)
	mux.HandleFunc("/readyz", fine)
	server := &http.Server{Addr: address, Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	klog.ErrorS(server.ListenAndServe(), "health probes are not served")
}
