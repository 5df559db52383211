package delivery

import (
	"slices"
	"strings"
)

// fairQueue has the workflows that wait to be sent something: those with changes before those that are only resynced,
// and in both one namespace after the other. A workqueue stores its items here, and calls it under its own lock.
type fairQueue struct {
	// hasChange reports whether something other than a resync waits for a workflow.
	hasChange        func(workflow string) bool
	changes, resyncs roundRobin
}

// Push adds a workflow.
func (t *fairQueue) Push(workflow string) {
	if t.hasChange(workflow) {
		t.changes.push(workflow)
	} else {
		t.resyncs.push(workflow)
	}
}

// Touch moves a workflow ahead that only waited for a resync and has a change now.
func (t *fairQueue) Touch(workflow string) {
	if t.hasChange(workflow) && t.resyncs.remove(workflow) {
		t.changes.push(workflow)
	}
}

// Len returns how many there are.
func (t *fairQueue) Len() int { return t.changes.count + t.resyncs.count }

// Pop removes and returns the next one.
func (t *fairQueue) Pop() string {
	if t.changes.count > 0 {
		return t.changes.pop()
	}
	return t.resyncs.pop()
}

// roundRobin serves namespaces in turn, so that one with many workflows does not delay another with few.
type roundRobin struct {
	namespaces []string // those with workflows that wait: the first is next
	waiting    map[string][]string
	count      int
}

// namespaceOf returns the second part of a workflow ID. For an object without a namespace that is its name, or "".
func namespaceOf(workflow string) string {
	if parts := strings.SplitN(workflow, "/", 3); len(parts) > 1 {
		return parts[1]
	}
	return ""
}

func (r *roundRobin) push(workflow string) {
	if r.waiting == nil {
		r.waiting = map[string][]string{}
	}
	namespace := namespaceOf(workflow)
	if len(r.waiting[namespace]) == 0 {
		r.namespaces = append(r.namespaces, namespace)
	}
	r.waiting[namespace] = append(r.waiting[namespace], workflow)
	r.count++
}

// pop removes and returns the first workflow of the next namespace, which becomes the last.
func (r *roundRobin) pop() string {
	namespace := r.namespaces[0]
	r.namespaces = r.namespaces[1:]
	list := r.waiting[namespace]
	r.set(namespace, list[1:])
	if len(list) > 1 {
		r.namespaces = append(r.namespaces, namespace)
	}
	return list[0]
}

// remove removes a workflow, and reports whether it was there.
func (r *roundRobin) remove(workflow string) bool {
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

// set replaces the workflows of a namespace that has one fewer now.
func (r *roundRobin) set(namespace string, list []string) {
	r.count--
	if len(list) == 0 {
		delete(r.waiting, namespace)
		return
	}
	r.waiting[namespace] = list
}
