package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Channels of the Gateway API. Stickiness is in the experimental one only.
const (
	StandardChannel     = "standard"
	ExperimentalChannel = "experimental"
)

// InstallGatewayAPI applies the CRDs of a channel of the Gateway API, as the module
// that test/e2e/gatewayapi pins has them.
func (c *Cluster) InstallGatewayAPI(ctx context.Context, channel string) error {
	download := exec.CommandContext(ctx, "go", "mod", "download", "-json", "sigs.k8s.io/gateway-api")
	download.Dir = filepath.Join(c.Root, "test", "e2e", "gatewayapi")
	download.Env = append(os.Environ(), "GOWORK=off")
	text, err := download.Output()
	var module struct{ Dir, Error string }
	if err == nil {
		err = json.Unmarshal(text, &module)
	}
	if err != nil {
		return fmt.Errorf("cannot find the module of the Gateway API: %w\n%s", err, text)
	}
	apply := []string{"apply", "--server-side", "--force-conflicts"} // too large for the annotation of a client-side apply
	wait := []string{"wait", "--for=condition=Established", "--timeout=60s"}
	for _, kind := range []string{"gatewayclasses", "gateways", "httproutes"} {
		apply = append(apply, "-f", filepath.Join(module.Dir, "config", "crd", channel, "gateway.networking.k8s.io_"+kind+".yaml"))
		wait = append(wait, "crd/"+kind+".gateway.networking.k8s.io")
	}
	if _, err := c.Kubectl(ctx, apply...); err != nil {
		return err
	}
	if _, err := c.Kubectl(ctx, wait...); err != nil {
		return err
	}
	// Discovery knows a new kind a moment after it is established.
	return c.eventually(ctx, func(ctx context.Context) error {
		_, err := c.Kubectl(ctx, "get", "httproutes", "--all-namespaces")
		return err
	})
}
