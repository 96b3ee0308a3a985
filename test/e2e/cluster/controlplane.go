package cluster

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	_ "embed" // for stages.yaml and the policies
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

//go:embed stages.yaml
var stages []byte

//go:embed audit-policy.yaml
var auditPolicy []byte

// ports are the loopback ports of the servers.
type ports struct {
	etcd, etcdPeer, apiserver, kwok, service, metrics, mcMetrics, mcHealth int
}

// freePorts returns ports that nobody listens on. All are held until the last one
// is known, so that they differ. Between here and the start of its server a port
// can be taken by another process; then that server ends and says so in its log.
func freePorts() (ports, error) {
	var p ports
	var held []net.Listener
	defer func() {
		for _, l := range held {
			l.Close()
		}
	}()
	for _, port := range []*int{&p.etcd, &p.etcdPeer, &p.apiserver, &p.kwok, &p.service, &p.metrics, &p.mcMetrics, &p.mcHealth} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return p, fmt.Errorf("cannot find a free port: %w", err)
		}
		held = append(held, l)
		*port = l.Addr().(*net.TCPAddr).Port
	}
	return p, nil
}

// writeCredentials chooses ports and writes keys, tokens and kubeconfigs.
func (c *Cluster) writeCredentials(context.Context) error {
	var err error
	if c.ports, err = freePorts(); err != nil {
		return err
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return fmt.Errorf("cannot make a key: %w", err)
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return fmt.Errorf("cannot encode a key: %w", err)
	}
	c.tokens = map[string]string{}
	list := ""
	for _, user := range []string{Tester, Metacontroller, controllers} {
		c.tokens[user] = rand.Text()
		list += fmt.Sprintf("%s,%s,%s,%s\n", c.tokens[user], user, user, c.group(user))
	}
	files := map[string][]byte{
		"sa.key":            pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}),
		"sa.pub":            pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}),
		"tokens.csv":        []byte(list),
		"stages.yaml":       stages,
		"audit-policy.yaml": auditPolicy,
	}
	for name, text := range files {
		if err := os.WriteFile(c.file(name), text, 0o600); err != nil {
			return fmt.Errorf("cannot write %s: %w", name, err)
		}
	}
	for user := range c.tokens {
		if err := c.Route(user, c.server()); err != nil {
			return err
		}
	}
	return nil
}

// Route writes the kubeconfig of a user, whose programs find the API server under an
// address from their next start on.
func (c *Cluster) Route(user, server string) error {
	config := clientcmdapi.NewConfig()
	config.Clusters["greyrelease"] = &clientcmdapi.Cluster{Server: server, InsecureSkipTLSVerify: true}
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{Token: c.tokens[user]}
	config.Contexts["greyrelease"] = &clientcmdapi.Context{Cluster: "greyrelease", AuthInfo: user}
	config.CurrentContext = "greyrelease"
	if err := clientcmd.WriteToFile(*config, c.Kubeconfig(user)); err != nil {
		return fmt.Errorf("cannot write kubeconfig: %w", err)
	}
	return nil
}

// group is a group of a user: Metacontroller has the rights that it is given, all others
// may do everything.
func (c *Cluster) group(user string) string {
	if user == Metacontroller && !c.Unrestricted {
		return "greyrelease:metacontroller"
	}
	return "system:masters"
}

// StartEtcd starts etcd on what it has stored so far.
func (c *Cluster) StartEtcd(context.Context) error {
	client := fmt.Sprintf("http://127.0.0.1:%d", c.ports.etcd)
	peer := fmt.Sprintf("http://127.0.0.1:%d", c.ports.etcdPeer)
	return c.run("etcd",
		"--data-dir", c.file("etcd"),
		"--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default="+peer,
		"--unsafe-no-fsync", "--log-level=warn")
}

// StartAPIServer starts the API server and waits until it is ready.
func (c *Cluster) StartAPIServer(ctx context.Context) error {
	err := c.run("kube-apiserver",
		fmt.Sprintf("--etcd-servers=http://127.0.0.1:%d", c.ports.etcd),
		"--cert-dir="+c.file("certs"),
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", c.ports.apiserver),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file="+c.file("sa.pub"), "--service-account-signing-key-file="+c.file("sa.key"),
		"--authorization-mode=RBAC", "--token-auth-file="+c.file("tokens.csv"),
		"--service-cluster-ip-range=10.96.0.0/16",
		// Pods here have no use for tokens.
		"--disable-admission-plugins=ServiceAccount",
		"--audit-policy-file="+c.file("audit-policy.yaml"), "--audit-log-path="+c.file("audit.log"),
		// MB. What goes beyond 100 would be moved to another file by default.
		"--audit-log-maxsize=4096",
		"--max-requests-inflight=2000", "--max-mutating-requests-inflight=1000")
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(c.Config(Tester))
	if err != nil {
		return err
	}
	return c.eventually(ctx, func(ctx context.Context) error {
		return client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
}

// Controllers are the programs that StartController starts.
var Controllers = []string{"kube-controller-manager", "kube-scheduler", "kwok"}

func (c *Cluster) startControllers(context.Context) error {
	var errs []error
	for _, name := range Controllers {
		errs = append(errs, c.StartController(name))
	}
	return errors.Join(errs...)
}

// StartController starts one of Controllers.
func (c *Cluster) StartController(name string) error {
	kubeconfig := "--kubeconfig=" + c.Kubeconfig(controllers)
	switch name {
	case "kube-controller-manager":
		return c.run(name, kubeconfig,
			"--service-account-private-key-file="+c.file("sa.key"), "--use-service-account-credentials=false",
			"--leader-elect=false", "--secure-port=0", "--kube-api-qps=300", "--kube-api-burst=600",
			// A starved machine must not look like a lost node.
			"--node-monitor-grace-period=1h",
			"--horizontal-pod-autoscaler-sync-period=2s")
	case "kube-scheduler":
		return c.run(name, kubeconfig, "--leader-elect=false", "--secure-port=0", "--kube-api-qps=300", "--kube-api-burst=600")
	case "kwok":
		return c.run(name, kubeconfig,
			"--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
			"--config="+c.file("stages.yaml"), "--node-lease-duration-seconds=40",
			fmt.Sprintf("--server-address=127.0.0.1:%d", c.ports.kwok))
	}
	return fmt.Errorf("cannot start %s: it is no controller", name)
}

// createNodes creates three nodes and waits until pods can be scheduled there.
func (c *Cluster) createNodes(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(c.Config(Tester))
	if err != nil {
		return err
	}
	room := corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("64"),
		corev1.ResourceMemory: resource.MustParse("512Gi"),
		corev1.ResourcePods:   resource.MustParse("2000"),
	}
	for i := range 3 {
		name := fmt.Sprintf("kwok-%d", i)
		_, err := client.CoreV1().Nodes().Create(ctx, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{
				Name:        name,
				Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"},
				Labels:      map[string]string{"type": "kwok", corev1.LabelHostname: name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64"},
			},
			Status: corev1.NodeStatus{Capacity: room, Allocatable: room},
		}, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return c.eventually(ctx, func(ctx context.Context) error {
		nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, node := range nodes.Items {
			if len(node.Spec.Taints) > 0 {
				return fmt.Errorf("node %s is not ready: %v", node.Name, node.Spec.Taints)
			}
		}
		return nil
	})
}
