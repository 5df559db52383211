package crdwatch

import "slices"

// turns are the workflows whose turn it is: those with changes first, those that are only resynced behind them. A
// workqueue stores its items here, and calls it under its own lock.
type turns struct {
	// changed says that something other than a resync waits for a workflow.
	changed       func(workflow string) bool
	first, behind []string
}

// Push adds a workflow.
func (t *turns) Push(workflow string) {
	if t.changed(workflow) {
		t.first = append(t.first, workflow)
	} else {
		t.behind = append(t.behind, workflow)
	}
}

// Touch moves a workflow ahead for which something has changed meanwhile.
func (t *turns) Touch(workflow string) {
	if i := slices.Index(t.behind, workflow); i >= 0 && t.changed(workflow) {
		t.behind = slices.Delete(t.behind, i, i+1)
		t.first = append(t.first, workflow)
	}
}

// Len is how many there are.
func (t *turns) Len() int { return len(t.first) + len(t.behind) }

// Pop takes the next one.
func (t *turns) Pop() string {
	from := &t.first
	if len(*from) == 0 {
		from = &t.behind
	}
	workflow := (*from)[0]
	*from = (*from)[1:]
	return workflow
}
