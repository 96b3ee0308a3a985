package main

import (
	"context"
	"sync"
)

// gate lets many go about their work, or one that wants everybody to rest.
type gate struct{ rest sync.RWMutex }

// enter waits until nobody wants rest. It is false when the context has ended meanwhile.
func (g *gate) enter(ctx context.Context) bool {
	g.rest.RLock()
	if ctx.Err() != nil {
		g.rest.RUnlock()
		return false
	}
	return true
}

func (g *gate) leave() { g.rest.RUnlock() }

// close waits until all have left, and keeps them out.
func (g *gate) close() { g.rest.Lock() }

func (g *gate) open() { g.rest.Unlock() }
