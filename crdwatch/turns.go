package crdwatch

import (
	"slices"
	"strings"
)

// turns are the workflows whose turn it is: those with changes first, those that are only resynced behind them, and in
// each of the two one namespace after the other. A workqueue stores its items here, and calls it under its own lock.
type turns struct {
	// changed says that something other than a resync waits for a workflow.
	changed       func(workflow string) bool
	first, behind round
}

// Push adds a workflow.
func (t *turns) Push(workflow string) {
	if t.changed(workflow) {
		t.first.push(workflow)
	} else {
		t.behind.push(workflow)
	}
}

// Touch moves a workflow ahead for which something has changed meanwhile.
func (t *turns) Touch(workflow string) {
	if t.changed(workflow) && t.behind.remove(workflow) {
		t.first.push(workflow)
	}
}

// Len is how many there are.
func (t *turns) Len() int { return t.first.n + t.behind.n }

// Pop takes the next one.
func (t *turns) Pop() string {
	if t.first.n > 0 {
		return t.first.pop()
	}
	return t.behind.pop()
}

// round lets namespaces take turns, so that one with much that waits does not hold up another with little.
type round struct {
	namespaces []string // those with something that waits: the first is next
	waiting    map[string][]string
	n          int
}

// namespaceOf is the second part of a workflow ID: that of what is in no namespace is its name, or none.
func namespaceOf(workflow string) string {
	if parts := strings.SplitN(workflow, "/", 3); len(parts) > 1 {
		return parts[1]
	}
	return ""
}

func (r *round) push(workflow string) {
	if r.waiting == nil {
		r.waiting = map[string][]string{}
	}
	namespace := namespaceOf(workflow)
	if len(r.waiting[namespace]) == 0 {
		r.namespaces = append(r.namespaces, namespace)
	}
	r.waiting[namespace] = append(r.waiting[namespace], workflow)
	r.n++
}

// pop takes the first of the next namespace, which is last then.
func (r *round) pop() string {
	namespace := r.namespaces[0]
	r.namespaces = r.namespaces[1:]
	list := r.waiting[namespace]
	r.set(namespace, list[1:])
	if len(list) > 1 {
		r.namespaces = append(r.namespaces, namespace)
	}
	return list[0]
}

// remove takes a workflow out, and says whether it was there.
func (r *round) remove(workflow string) bool {
	namespace := namespaceOf(workflow)
	list := r.waiting[namespace]
	i := slices.Index(list, workflow)
	if i < 0 {
		return false
	}
	r.set(namespace, slices.Delete(list, i, i+1))
	if len(list) == 1 {
		at := slices.Index(r.namespaces, namespace)
		r.namespaces = slices.Delete(r.namespaces, at, at+1)
	}
	return true
}

// set says what waits for a namespace that has one fewer now.
func (r *round) set(namespace string, list []string) {
	r.n--
	if len(list) == 0 {
		delete(r.waiting, namespace)
		return
	}
	r.waiting[namespace] = list
}
