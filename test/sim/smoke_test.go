package sim

import (
	"testing"
	"time"
)

const web = `
apiVersion: greyrelease.example.com/v1
kind: GreyRelease
metadata: {name: web}
spec:
  replicas: 10
  targetVersion: "1.0"
  batchSize: 3
  canaryWeight: 10
  template:
    spec:
      containers:
      - {name: web, image: nginx, ports: [{containerPort: 80}]}
`

func TestSmoke(t *testing.T) {
	for _, mode := range []Mode{Dynamic, ServerSide} {
		c := New(Options{Seed: 1, Mode: mode}, Product)
		c.Checks = Invariants(c)
		c.Behave("2.0", Behavior{Ready: 3 * time.Second})
		tree, err := Parse(web)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Apply(tree); err != nil {
			t.Fatal(err)
		}
		t.Log(c.Run(30 * time.Second))
		c.Edit(Release("web"), map[string]any{"spec": map[string]any{"targetVersion": "2.0"}})
		t.Log(c.Run(2 * time.Minute))
		t.Log(c.Server.Get(Release("web")).Tree["status"])
		t.Log(c.Server.Counts, c.Metacontroller.Syncs)
		t.Fail()
	}
}
