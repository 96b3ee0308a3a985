// Command metacontroller is a double of Metacontroller for tests: it does for
// CompositeControllers what Metacontroller 4.17 does, on client-go, as far as
// GreyRelease can notice. The rules of its two apply modes are those of
// test/sim/apply, which the simulator uses as well.
//
// It takes the flags of the original that tests set, so that either can be
// started in the other's place. What it lacks: finalize hooks, etags, TLS, update
// methods other than InPlace and OnDelete, selectors on parents, revision history
// and DecoratorControllers.
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

// fieldManager is the name under which both modes own fields. Updates get it from
// the user agent.
const fieldManager = "metacontroller"

// The apply strategies.
const (
	dynamicApply    = "dynamic-apply"
	serverSideApply = "server-side-apply"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "path of a kubeconfig")
	strategy := flag.String("apply-strategy", dynamicApply, "dynamic-apply or server-side-apply")
	qps := flag.Float64("client-go-qps", 5, "requests per second")
	burst := flag.Int("client-go-burst", 10, "requests at once")
	workers := flag.Int("workers", 5, "syncs at once")
	flag.String("metrics-address", ":9999", "not served")
	health := flag.String("health-probe-bind-address", ":8081", "address of /healthz and /readyz")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx, *kubeconfig, *strategy, float32(*qps), *burst, *workers, *health); err != nil {
		fmt.Fprintf(os.Stderr, "metacontroller: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, kubeconfig, strategy string, qps float32, burst, workers int, health string) error {
	if strategy != dynamicApply && strategy != serverSideApply {
		return fmt.Errorf("unknown apply strategy %q", strategy)
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("cannot read kubeconfig: %w", err)
	}
	config.QPS, config.Burst, config.UserAgent = qps, burst, fieldManager
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
	broadcaster := record.NewBroadcasterWithCorrelatorOptions(record.CorrelatorOptions{BurstSize: 25, QPS: 1. / 300.})
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: clientset.CoreV1().Events("")})
	defer broadcaster.Shutdown()
	go serveHealth(health)

	o := &operator{
		client:   client,
		mapper:   restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discoverer)),
		events:   broadcaster.NewRecorder(runtime.NewScheme(), corev1.EventSource{Component: "metacontroller"}),
		strategy: strategy,
		workers:  workers,
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
