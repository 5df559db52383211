package crdwatch

import "maps"

// ends are the UIDs of the objects whose end an informer has seen since the last look through everything began. Their
// workflows have been sent it: what Temporal's visibility, which lags under load, still shows of them is no reason to
// ask the API server, and to send it again. A workflow that is still there at the next look is asked about.
type ends struct{ before, now map[string]bool }

// add notes an end.
func (e *ends) add(uid string) {
	if e.now == nil {
		e.now = map[string]bool{}
	}
	e.now[uid] = true
}

// has says whether an end was seen since the look before this one began.
func (e *ends) has(uid string) bool { return e.now[uid] || e.before[uid] }

// begin begins a look. One that failed does not count: what was seen before it is still not asked about.
func (e *ends) begin() {
	if e.before == nil {
		e.before = map[string]bool{}
	}
	maps.Copy(e.before, e.now)
	e.now = nil
}

// looked ends a look that went through everything.
func (e *ends) looked() { e.before = nil }
