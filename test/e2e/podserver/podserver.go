// Package podserver answers requests for pods that have no process: each gets an
// HTTP server on loopback that lives as long as the pod's own would, and behaves as
// well: it answers through its whole grace period, finishes what it has begun, and
// then refuses connections at once.
package podserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// Headers of each answer.
const (
	VersionHeader = "X-Version"
	PodHeader     = "X-Pod"
)

// Servers are the servers of all pods in a namespace.
type Servers struct {
	cancel  context.CancelFunc
	watch   sync.WaitGroup
	serving sync.WaitGroup
	// most is how many requests a second a pod answers; 0 for no limit.
	most int

	mu   sync.Mutex
	pods map[types.UID]*server
	err  error
}

type server struct {
	version string
	address string
	http    *http.Server
	served  atomic.Int64
	ending  bool

	mu     sync.Mutex
	tokens float64
	filled time.Time
}

// Start begins to answer for the pods of a namespace. Each pod takes so many
// requests a second, after a moment's rest twice as many, and answers 503 beyond
// that; 0 means no limit.
func Start(ctx context.Context, client kubernetes.Interface, namespace string, most int) (*Servers, error) {
	ctx, cancel := context.WithCancel(ctx)
	s := &Servers{cancel: cancel, most: most, pods: map[types.UID]*server{}}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace))
	pods := factory.Core().V1().Pods().Informer()
	_, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { s.see(obj.(*corev1.Pod)) },
		UpdateFunc: func(_, obj any) { s.see(obj.(*corev1.Pod)) },
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			s.lose(obj.(*corev1.Pod))
		},
	})
	if err != nil {
		cancel()
		return nil, err
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	s.watch.Go(func() {
		<-ctx.Done()
		factory.Shutdown()
	})
	return s, nil
}

// Stop ends all servers at once.
func (s *Servers) Stop() error {
	s.cancel()
	s.watch.Wait() // so that no server is started any more
	s.mu.Lock()
	for _, p := range s.pods {
		p.http.Close()
	}
	s.mu.Unlock()
	s.serving.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Address is where a pod's server listens. It is not there yet for a pod that was
// seen elsewhere a moment earlier than here.
func (s *Servers) Address(pod types.UID) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pods[pod]
	if p == nil {
		return "", false
	}
	return p.address, true
}

// Served are the requests answered by version.
func (s *Servers) Served() map[string]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	served := map[string]int64{}
	for _, p := range s.pods {
		served[p.version] += p.served.Load()
	}
	return served
}

// see starts the server of a pod that has a node, and lets it end when it is deleted.
func (s *Servers) see(pod *corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pods[pod.UID]
	if p == nil {
		if pod.Spec.NodeName == "" || pod.DeletionTimestamp != nil {
			return
		}
		var err error
		if p, err = s.open(pod); err != nil {
			s.err = errors.Join(s.err, err)
			return
		}
		s.pods[pod.UID] = p
	}
	if pod.DeletionTimestamp != nil {
		s.end(p, time.Until(pod.DeletionTimestamp.Time))
	}
}

// lose is for a pod that went without a notice, or faster than its grace period.
func (s *Servers) lose(pod *corev1.Pod) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.pods[pod.UID]; p != nil {
		grace := time.Duration(0)
		if pod.Spec.TerminationGracePeriodSeconds != nil {
			grace = time.Duration(*pod.Spec.TerminationGracePeriodSeconds) * time.Second
		}
		s.end(p, grace)
	}
}

// end closes a server after its grace period. From now on it asks clients to
// connect anew with each answer.
func (s *Servers) end(p *server, grace time.Duration) {
	if p.ending {
		return
	}
	p.ending = true
	p.http.SetKeepAlivesEnabled(false)
	time.AfterFunc(grace, func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := p.http.Shutdown(ctx); err != nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.err = errors.Join(s.err, fmt.Errorf("cannot end a pod's server: %w", err))
		}
	})
}

func (s *Servers) open(pod *corev1.Pod) (*server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("cannot serve for pod %s: %w", pod.Name, err)
	}
	image := pod.Spec.Containers[0].Image
	p := &server{version: image[strings.LastIndex(image, ":")+1:], address: l.Addr().String(), filled: time.Now(), tokens: float64(s.most)}
	p.http = &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(VersionHeader, p.version)
		w.Header().Set(PodHeader, pod.Name)
		if !p.admit(float64(s.most)) {
			http.Error(w, "too many requests for one pod", http.StatusServiceUnavailable)
			return
		}
		if ms, err := strconv.Atoi(r.URL.Query().Get("ms")); err == nil && r.URL.Path == "/slow" {
			time.Sleep(time.Duration(ms) * time.Millisecond)
		}
		p.served.Add(1)
		fmt.Fprintln(w, p.version)
	})}
	s.serving.Go(func() {
		if err := p.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.err = errors.Join(s.err, err)
		}
	})
	return p, nil
}

// admit takes a token for a request, of which most come in each second and at most
// as many are saved.
func (p *server) admit(most float64) bool {
	if most == 0 {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.tokens = min(most, p.tokens+most*now.Sub(p.filled).Seconds())
	p.filled = now
	if p.tokens < 1 {
		return false
	}
	p.tokens--
	return true
}
