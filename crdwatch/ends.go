package crdwatch

// ends are the UIDs of the objects whose end an informer has seen since everything was looked through last. Their
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

// turn begins a look.
func (e *ends) turn() { e.before, e.now = e.now, nil }
