// Command soak runs releases on a real control plane for as long as it is told, with
// users that never rest and with trouble: programs are killed, stopped and started again,
// the network is slow, parted or cut. From outside, through the API alone, it checks every
// change against what a release promises, and every few minutes it lets everything come
// to rest and compares what there is with what the users want.
//
//	go run -C test/e2e ./soak -for 1h -seed 7                     the double of Metacontroller
//	METACONTROLLER=/path/to/binary go run -C test/e2e ./soak      the original
//	go run -C test/e2e ./soak -apply server-side-apply            the other apply strategy
//	go run -C test/e2e ./soak -service /path/to/binary            another service
//
// The seed decides which moves each user makes, and which faults come one after the other;
// the moments at which they meet are chance. Nobody who asks the same twice gets the same
// run, but one of the same kind.
//
// What was done is in soak.log, and every change that was judged in watch.log, in a folder
// that is printed. The exit code is 1 if a promise was broken.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"greyrelease.example.com/test/debian"
	"greyrelease.example.com/test/e2e/cluster"
	"greyrelease.example.com/test/e2e/haproxy"
	"greyrelease.example.com/test/e2e/replicas"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
)

type options struct {
	length, every, patience time.Duration
	seed                    uint64
	releases, hands         int
	apply, service          string
	failfast                bool
}

func main() {
	var o options
	flag.DurationVar(&o.length, "for", 10*time.Minute, "how long to go on")
	flag.DurationVar(&o.every, "every", 6*time.Minute, "how long between two rests")
	flag.DurationVar(&o.patience, "patience", 6*time.Minute, "how long everything may take to come to rest")
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().Unix()), "what moves and faults are chosen by")
	flag.IntVar(&o.releases, "releases", len(shapes), "how many releases, of all shapes in turn")
	flag.IntVar(&o.hands, "faults", 2, "how many faults at a time; 0 for none")
	flag.StringVar(&o.apply, "apply", cluster.DynamicApply, "apply strategy of Metacontroller")
	flag.StringVar(&o.service, "service", "", "the service to run; the one of this tree by default")
	flag.BoolVar(&o.failfast, "failfast", false, "end at the first promise that is broken")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	broken, err := run(ctx, o)
	if err != nil {
		fmt.Fprintf(os.Stderr, "soak: %v\n", err)
		os.Exit(2)
	}
	if broken > 0 {
		os.Exit(1)
	}
}

// soak is a run.
type soak struct {
	options
	*world
	plant *plant
	users []*user
	gate  gate
	audit *cluster.Audit
	feed  *feed
	dir   string
	stop  context.CancelFunc

	writes map[string]int // of Metacontroller, by what was written
	steady,
	metacontroller series

	mu       sync.Mutex
	breaches []breach
	rests    int
	slowest  time.Duration // that it took to come to rest
	failed   error
}

func run(ctx context.Context, o options) (broken int, err error) {
	root, err := cluster.Root()
	if err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp("", "greyrelease-soak-")
	if err != nil {
		return 0, fmt.Errorf("cannot make a folder: %w", err)
	}
	plane, err := cluster.Start(ctx, cluster.Options{
		Root: root, Dir: dir, Overlay: "all", Apply: o.apply, Service: o.service,
		Metacontroller: os.Getenv("METACONTROLLER"), Progress: os.Stderr,
	})
	if err != nil {
		return 0, fmt.Errorf("%w: logs are in %s", err, dir)
	}
	defer plane.Stop()
	s, err := prepare(ctx, o, plane, dir)
	if err != nil {
		return 0, fmt.Errorf("%w: logs are in %s", err, dir)
	}
	defer s.journal.close()
	defer func() {
		if err := errors.Join(s.plant.set.Stop(), s.plant.link.close()); err != nil {
			s.journal.say("cannot end: %v", err)
		}
	}()
	started := time.Now()
	err = s.endure(ctx)
	table := s.table(time.Since(started))
	s.journal.note("%s", table)
	fmt.Print(table)
	return len(s.breaches), err
}

// prepare puts two replicas in the place of the service, and a network that can fail
// between Metacontroller and the API server.
func prepare(ctx context.Context, o options, plane *cluster.Cluster, dir string) (*soak, error) {
	journal, err := newJournal(dir, os.Stderr)
	if err != nil {
		return nil, err
	}
	s := &soak{options: o, dir: dir, writes: map[string]int{}, audit: plane.Audit(namespace)}
	config := plane.Config(cluster.Tester)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	dyn, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	s.world = &world{
		client: client, dynamic: dyn, namespace: namespace, journal: journal, counter: &tally{n: map[string]int{}},
		book: newBook(o.apply == cluster.ServerSideApply, s.breach),
	}
	s.feed = s.newFeed()
	s.plant = &plant{Cluster: plane, client: client, book: s.book, journal: journal, counter: s.counter, busy: map[string]bool{}}
	plane.End("metacontroller", false)
	if s.plant.link, err = newLink(plane.APIServerAddress()); err != nil {
		return nil, err
	}
	if err := plane.Route(cluster.Metacontroller, "https://"+s.plant.link.address()); err != nil {
		return nil, err
	}
	if err := s.startReplicas(ctx); err != nil {
		return nil, err
	}
	if err := plane.StartMetacontroller(ctx); err != nil {
		return nil, err
	}
	_, err = client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	return s, err
}

const namespace = "soak"

func (s *soak) startReplicas(ctx context.Context) error {
	cache, err := debian.Cache()
	if err != nil {
		return err
	}
	program, err := haproxy.Find(ctx, cache, os.Stderr)
	if err != nil {
		return err
	}
	_, text, err := net.SplitHostPort(s.plant.ServiceAddress())
	if err != nil {
		return err
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return err
	}
	s.plant.End("greyrelease", false)
	if s.plant.set, err = replicas.Start(ctx, replicas.Options{Proxy: program, Port: port, Dir: s.dir}); err != nil {
		return err
	}
	if s.plant.steady, err = s.plant.set.Add(ctx, s.plant.Programs["greyrelease"]); err != nil {
		return err
	}
	return s.plant.startReplica(ctx)
}

// endure lets users and trouble go on, with a rest every few minutes and in the end.
func (s *soak) endure(ctx context.Context) error {
	ctx, s.stop = context.WithCancel(ctx)
	defer s.stop()
	watching, stopWatching := context.WithCancel(context.WithoutCancel(ctx))
	var watchers, doers sync.WaitGroup
	defer func() {
		s.stop()
		doers.Wait()
		stopWatching()
		watchers.Wait()
	}()
	watchers.Go(func() { s.feed.run(watching) })
	watchers.Go(func() { s.accept(watching) })
	watchers.Go(func() { s.plant.mind(watching, s.goneReplica) })
	watchers.Go(func() { s.sample(watching) })
	s.journal.say("%d releases, seed %d, %s, in %s", s.releases, s.seed, s.apply, s.dir)
	for i := range s.releases {
		shape := shapes[i%len(shapes)]
		u := newUser(s.world, shape, fmt.Sprintf("%s-%d", shape.name, i), s.seed)
		s.users = append(s.users, u)
		if err := u.create(ctx, u.next(""), shape.replicas[0]); err != nil {
			return fmt.Errorf("cannot create release %s: %w", u.name, err)
		}
		watchers.Go(func() { u.approve(watching) })
	}
	end := time.Now().Add(s.length)
	s.gate.close()
	s.rest(ctx)
	for _, u := range s.users {
		doers.Go(func() { u.live(ctx, &s.gate) })
	}
	for hand := range s.hands {
		doers.Go(func() { s.fail(s.plant.vex(ctx, &s.gate, rand.New(rand.NewPCG(s.seed, uint64(1000+hand))))) })
	}
	for ctx.Err() == nil && time.Now().Before(end) {
		s.gate.open()
		pause(ctx, min(s.every, time.Until(end)))
		s.gate.close()
		if ctx.Err() == nil {
			s.rest(ctx)
		}
	}
	s.stop()
	s.gate.open()
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(s.failed, s.blind())
}

// blind is an error if nothing can be said of promises: a checker that sees nothing
// reports nothing.
func (s *soak) blind() error {
	switch counts, _ := s.book.sum(); {
	case len(s.breaches) > 0:
		return nil
	case s.slowest == 0:
		return errors.New("it ended before the first rest was over, and nothing is known")
	case counts.judged == 0:
		return errors.New("no change of size was seen, and none was checked")
	}
	return nil
}

// fail ends the run for a reason that is nobody's promise.
func (s *soak) fail(err error) {
	if err == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = errors.Join(s.failed, err)
	s.stop()
}

func (s *soak) newFeed() *feed {
	return &feed{
		client: s.dynamic, namespace: namespace, note: s.journal.note,
		see: func(c change) {
			s.journal.watch(c)
			s.book.see(c)
		},
		reset: func(all []change, at time.Time) {
			s.journal.note("all objects are listed")
			for _, c := range all {
				s.journal.watch(c)
			}
			s.book.reset(all, at)
		},
		tick: s.book.tick,
	}
}

// goneReplica is for a replica that nobody has ended.
func (s *soak) goneReplica(address string) {
	s.breach(breach{time.Now(), "all", ruleService, "the replica at " + address + " has ended by itself: see its log in " + s.dir})
	s.fail(fmt.Errorf("a replica has ended"))
}

// breach notes a promise that was broken, and what there is at the moment. After 30 the
// run ends: nothing new is found.
func (s *soak) breach(b breach) {
	s.mu.Lock()
	s.breaches = append(s.breaches, b)
	n := len(s.breaches)
	s.mu.Unlock()
	s.journal.say("BREACH %d: %s", n, b)
	if n <= 10 {
		go s.dump(n)
	}
	if n >= 30 || s.failfast {
		s.stop()
	}
}

// dump writes down all objects.
func (s *soak) dump(n int) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	file := filepath.Join(s.dir, fmt.Sprintf("breach-%d.yaml", n))
	// The API server may be away; what was printed until then is better than nothing.
	for ctx.Err() == nil {
		text, err := s.plant.Kubectl(ctx, "-n", namespace, "get", "gr,deploy,rs,pods,cm,httproutes,services,events", "-o", "yaml")
		if werr := os.WriteFile(file, []byte(text), 0o644); werr != nil {
			s.journal.say("cannot write down breach %d: %v", n, werr)
			return
		}
		if err == nil {
			return
		}
		pause(ctx, time.Second)
	}
	s.journal.say("cannot write down all objects of breach %d: see %s", n, file)
}
