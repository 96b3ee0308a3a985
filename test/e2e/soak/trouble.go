package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"

	"greyrelease.example.com/test/e2e/cluster"
	"greyrelease.example.com/test/e2e/replicas"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// plant is the machinery that trouble comes over.
type plant struct {
	*cluster.Cluster
	client  kubernetes.Interface
	set     *replicas.Set
	link    *link
	book    *book
	journal *journal
	counter *tally

	// steady is a replica of the service that is stopped at times and never killed, so that
	// what it gathers over time shows.
	steady string

	mu     sync.Mutex
	mortal string          // the other replica
	busy   map[string]bool // parts that somebody is at
}

// fault is something that goes wrong with a part of the plant, and how it ends.
type fault struct {
	name, part string
	often      int
	longest    time.Duration
	// doubt: Kubernetes may make a pod twice, when a controller gets no answer.
	doubt bool
	begin func(*plant, context.Context, *rand.Rand) error
	end   func(*plant, context.Context) error
}

// longAway is longer than Metacontroller waits for an answer.
const longAway = 15 * time.Second

var faults = []fault{
	{"replica killed", "mortal", 10, 6 * time.Second, false, (*plant).killReplica, (*plant).startReplica},
	{"replica stopped", "steady", 5, longAway, false, (*plant).stopReplica, (*plant).wakeReplica},
	{"service away", "steady", 5, longAway, false, (*plant).stopService, (*plant).wakeService},
	killing("metacontroller", 8, 5*time.Second, false, (*plant).StartMetacontroller),
	stopping("metacontroller", 8, longAway, false),
	{"slow network", "link", 10, 20 * time.Second, false, (*plant).slowLink, (*plant).healLink},
	{"network partition", "link", 6, 20 * time.Second, false, (*plant).stallLink, (*plant).healLink},
	{"network cut", "link", 4, 8 * time.Second, false, (*plant).cutLink, (*plant).healLink},
	stopping("kube-apiserver", 5, 10*time.Second, true),
	{"kube-apiserver slow", "kube-apiserver", 5, 10 * time.Second, true, (*plant).pulseAPIServer, (*plant).wakeAPIServer},
	killing("kube-apiserver", 3, 3*time.Second, true, (*plant).startAPIServer),
	killing("etcd", 3, 3*time.Second, true, (*plant).startEtcd),
	stopping("etcd", 3, 5*time.Second, true),
	stopping("kube-controller-manager", 4, longAway, true),
	killing("kube-controller-manager", 3, 5*time.Second, true, start("kube-controller-manager")),
	stopping("kwok", 4, longAway, false),
	killing("kwok", 2, 5*time.Second, false, (*plant).startKwok),
	stopping("kube-scheduler", 2, longAway, false),
}

// stopping has a program stand still, which is what a partition looks like from both sides.
func stopping(part string, often int, longest time.Duration, doubt bool) fault {
	return fault{
		part + " stopped", part, often, longest, doubt,
		func(p *plant, _ context.Context, _ *rand.Rand) error { return p.Signal(part, syscall.SIGSTOP) },
		func(p *plant, _ context.Context) error { return p.Signal(part, syscall.SIGCONT) },
	}
}

func killing(part string, often int, longest time.Duration, doubt bool, again func(*plant, context.Context) error) fault {
	return fault{
		part + " killed", part, often, longest, doubt,
		func(p *plant, _ context.Context, _ *rand.Rand) error { p.End(part, true); return nil },
		again,
	}
}

func start(controller string) func(*plant, context.Context) error {
	return func(p *plant, _ context.Context) error { return p.StartController(controller) }
}

func (p *plant) killReplica(ctx context.Context, _ *rand.Rand) error {
	return p.set.Kill(ctx, p.mortalReplica())
}

func (p *plant) mortalReplica() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mortal
}

func (p *plant) startReplica(ctx context.Context) error {
	address, err := p.set.Add(ctx, p.Programs["greyrelease"])
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mortal = address
	return err
}

func (p *plant) stopReplica(context.Context, *rand.Rand) error {
	return p.set.Signal(p.steady, syscall.SIGSTOP)
}

func (p *plant) wakeReplica(context.Context) error { return p.set.Signal(p.steady, syscall.SIGCONT) }

// stopService stops all replicas there are: another one may be on its way.
func (p *plant) stopService(context.Context, *rand.Rand) error {
	return p.signalAll(syscall.SIGSTOP)
}

func (p *plant) wakeService(context.Context) error { return p.signalAll(syscall.SIGCONT) }

func (p *plant) signalAll(signal syscall.Signal) error {
	for _, address := range p.set.Addresses() {
		// One that is being killed at the same time takes no signal.
		if err := p.set.Signal(address, signal); err != nil && address == p.steady {
			return err
		}
	}
	return nil
}

// slowLink delays each way by up to a second and a half.
func (p *plant) slowLink(_ context.Context, r *rand.Rand) error {
	p.link.slow(time.Duration(50+r.IntN(1450)) * time.Millisecond)
	return nil
}

func (p *plant) stallLink(context.Context, *rand.Rand) error { p.link.stall(true); return nil }

func (p *plant) cutLink(context.Context, *rand.Rand) error { p.link.sever(true); return nil }

func (p *plant) healLink(context.Context) error {
	p.link.slow(0)
	p.link.stall(false)
	p.link.sever(false)
	return nil
}

// pulseAPIServer lets the API server work a quarter of the time.
func (p *plant) pulseAPIServer(ctx context.Context, r *rand.Rand) error {
	for range 5 + r.IntN(15) {
		if err := p.Signal("kube-apiserver", syscall.SIGSTOP); err != nil {
			return err
		}
		time.Sleep(time.Duration(100+r.IntN(400)) * time.Millisecond)
		if err := p.Signal("kube-apiserver", syscall.SIGCONT); err != nil {
			return err
		}
		pause(ctx, time.Duration(50+r.IntN(100))*time.Millisecond)
	}
	return nil
}

func (p *plant) wakeAPIServer(context.Context) error {
	return p.Signal("kube-apiserver", syscall.SIGCONT)
}

func (p *plant) startAPIServer(ctx context.Context) error {
	// It says that a program ended, if one has given up meanwhile.
	if err := p.StartAPIServer(ctx); err != nil && p.Pid("kube-apiserver") == 0 {
		return err
	}
	return p.serves(ctx)
}

func (p *plant) startEtcd(ctx context.Context) error {
	if err := p.StartEtcd(ctx); err != nil {
		return err
	}
	return p.serves(ctx)
}

// serves waits until the API server is ready.
func (p *plant) serves(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for {
		attempt, stop := context.WithTimeout(ctx, 5*time.Second)
		err := p.client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(attempt).Error()
		stop()
		if err == nil || ctx.Err() != nil {
			return err
		}
		pause(ctx, 200*time.Millisecond)
	}
}

// take claims a part of the plant: one thing goes wrong with it at a time.
func (p *plant) take(part string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.busy[part] {
		return false
	}
	p.busy[part] = true
	return true
}

func (p *plant) release(part string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.busy, part)
}

// vex has one thing after the other go wrong until the context ends, beside others that
// do the same. Which ones depends on the seed, and on what others are at.
func (p *plant) vex(ctx context.Context, gate *gate, r *rand.Rand) error {
	for ctx.Err() == nil {
		f := draw(r, faults)
		d := time.Duration(r.Int64N(int64(f.longest)))
		rest := time.Duration(2000+r.IntN(16000)) * time.Millisecond
		luck := rand.New(rand.NewPCG(r.Uint64(), 0))
		if !gate.enter(ctx) {
			return nil
		}
		var err error
		if p.take(f.part) {
			err = p.suffer(ctx, f, d, luck)
			p.release(f.part)
		} else {
			rest = 0
		}
		gate.leave()
		if err != nil {
			return err
		}
		pause(ctx, rest)
	}
	return nil
}

// suffer lets a fault happen, and ends it also when the run ends.
func (p *plant) suffer(ctx context.Context, f fault, d time.Duration, r *rand.Rand) error {
	p.journal.note("fault %s for %v", f.name, d.Round(time.Millisecond))
	p.counter.add("fault " + f.name)
	p.book.begin(time.Now(), f.doubt)
	defer func() { p.book.end(time.Now(), f.doubt) }()
	if err := f.begin(p, ctx, r); err != nil {
		return err
	}
	pause(ctx, d)
	err := f.end(p, context.WithoutCancel(ctx))
	p.journal.note("fault %s is over", f.name)
	if f.part == "kube-apiserver" || f.part == "etcd" {
		err = errors.Join(err, p.renewKubelets())
	}
	return err
}

// renewKubelets starts kwok anew, unless somebody is at it. It tries once what a kubelet
// tries until it is done: pods whose step met an API server that was away would stay as
// they are, and Terminating for ever.
func (p *plant) renewKubelets() error {
	if !p.take("kwok") {
		return nil
	}
	defer p.release("kwok")
	p.End("kwok", true)
	return p.startKwok(context.Background())
}

// startKwok starts kwok, which would wait for 40 seconds until the leases of the one before
// it have run out. Where they can't be deleted, it does.
func (p *plant) startKwok(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	if err := p.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		p.journal.note("the leases of nodes stay: %v", err)
	}
	return p.StartController("kwok")
}

func (f fault) weight() int { return f.often }

// mind starts what has ended by itself, as a kubelet does. Whoever is at a part starts it
// himself.
func (p *plant) mind(ctx context.Context, gone func(name string)) {
	again := map[string]func(*plant, context.Context) error{
		"metacontroller": (*plant).StartMetacontroller, "kube-apiserver": (*plant).startAPIServer, "etcd": (*plant).startEtcd,
	}
	for _, name := range cluster.Controllers {
		again[name] = start(name)
	}
	again["kwok"] = (*plant).startKwok
	for ctx.Err() == nil {
		pause(ctx, time.Second)
		for name, restart := range again {
			if !p.take(name) {
				continue
			}
			if p.Ended(name) {
				p.journal.note("%s has ended by itself", name)
				p.counter.add("restart of " + name)
				p.End(name, true)
				if err := restart(p, ctx); err != nil {
					p.journal.say("cannot start %s: %v", name, err)
				}
			}
			p.release(name)
		}
		for _, address := range p.set.Dead() {
			gone(address)
		}
	}
}
