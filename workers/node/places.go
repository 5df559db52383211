package node

import (
	"fmt"
	"sync"
)

// places bounds what of one kind is in hand at once, in all and in one pod. What is too much is refused at once, and tried again later: it
// must not wait in one of the worker's slots, for then launchers that hang would keep others' work from being begun. The zero value has no
// place. It is safe for concurrent use.
type places struct {
	kind  string // for the error
	most  int
	inPod int

	mu   sync.Mutex
	all  int
	pods map[string]int
}

// take takes a place for a pod; leave gives it back.
func (p *places) take(pod string) (leave func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.pods[pod] >= p.inPod:
		return nil, fmt.Errorf("an earlier %s in pod %s has not ended yet", p.kind, pod)
	case p.all >= p.most:
		return nil, fmt.Errorf("the node's worker has a %s of %d pods in hand already", p.kind, p.all)
	}
	if p.pods == nil {
		p.pods = map[string]int{}
	}
	p.all++
	p.pods[pod]++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.all--
		if p.pods[pod]--; p.pods[pod] == 0 {
			delete(p.pods, pod)
		}
	}, nil
}
