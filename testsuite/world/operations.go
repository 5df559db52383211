package world

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/virtflow/virtflow/contract"
)

// Timeouts of the API server: until an entity accepts or refuses, and from the request until it is done.
const (
	acceptTimeout = contract.OperationAccepted
	doneTimeout   = contract.OperationAnswered
)

// Types of answers that the API server itself gives.
const (
	answerDone    = "done"
	answerUnknown = "unknown" // whether it was done is unknown
	answerAbsent  = "absent"  // there is no such instance, or no entity of it
)

// Order is a user's request to a running guest, with its answer.
type Order struct {
	ID        string
	Operation contract.Operation
	// Answer is answerDone and the like, or the type of the error that refused the request; "" until there is one.
	Answer  string
	Message string

	at        time.Time
	name      string // of the user's own; a repeated request has the same
	thawAfter time.Duration
}

// effects counts what launchers did under one request ID, however often it was sent.
type effects struct {
	tried   int // attempts of the activity that had an effect on the world
	done    int // those of them after which the guest was in the requested state
	changed int // those of them that changed something: a button pressed, a running guest paused
}

// Operate requests an operation on the running guest of a VMI, through an Update with that ID, as the API server does
// for its users. ThawAfter is for a freeze. It does not wait for the answer.
func (w *World) Operate(name string, o contract.Operation, id string, thawAfter time.Duration) *Order {
	order := &Order{ID: string(o) + "/" + id, name: id, Operation: o, at: w.Now(), thawAfter: thawAfter}
	w.orders = append(w.orders, order)
	w.tracef("user: %s VMI %s (%s)", o, name, order.ID)
	vmi := w.VMI(name)
	if vmi == nil {
		w.answer(order, answerAbsent, "no such instance")
		return order
	}
	order.ID += "/" + string(vmi.UID) // a request about another instance is another one
	r := contract.InstanceRequest{
		Operation: o, UID: string(vmi.UID), Actor: "jane", ACPI: true, ThawAfter: int64(thawAfter / time.Second),
		NotAfter: w.Now().Add(doneTimeout),
	}
	w.after(acceptTimeout, func() {
		if order.Answer == "" && !w.accepted[order] {
			w.answer(order, answerUnknown, "no entity accepts or refuses it")
		}
	})
	w.after(doneTimeout, func() { w.answer(order, answerUnknown, "it was begun, and no answer came") })
	w.after(signalLag, func() { w.update(contract.VMIID(Namespace, name), order, r) })
	return order
}

// update sends an order to its entity. As Temporal does, it returns the existing Update of a run for a repeated ID, and
// delivers an Update that comes between two runs to the next one.
func (w *World) update(id string, order *Order, r contract.InstanceRequest) {
	run := w.workflows.runs[id]
	switch {
	case order.Answer != "" || w.ending:
		return
	case run == nil:
		w.answer(order, answerAbsent, "no such workflow")
		return
	case !run.open:
		w.after(3*time.Millisecond, func() { w.update(id, order, r) })
		return
	}
	if u := run.updates[order.ID]; u != nil {
		u.orders = append(u.orders, order)
		w.accepted[order] = w.accepted[order] || u.accepted
		if u.over {
			w.answerAll(u)
		}
		return
	}
	u := &update{world: w, run: run, id: order.ID, orders: []*Order{order}}
	run.updates[order.ID] = u
	w.updates++
	// the test environment needs another ID in every run of every workflow
	sent := fmt.Sprintf("%s#%d", order.ID, w.updates)
	if err := w.env.UpdateWorkflowByID(id, string(order.Operation), sent, u, r); err != nil {
		delete(run.updates, order.ID)
		w.answer(order, answerAbsent, err.Error())
		return
	}
	w.after(time.Millisecond, func() {
		if !u.seen && run.updates[order.ID] == u { // lost with the run that was closing
			delete(run.updates, order.ID)
			for _, o := range u.orders {
				w.update(id, o, r)
			}
		}
	})
}

// update is one Update in one run.
type update struct {
	world  *World
	run    *run
	id     string
	orders []*Order
	seen   bool // by the workflow
	// accepted comes before over; err is then the outcome.
	accepted, over bool
	err            error
}

// Accept implements Temporal's UpdateCallbacks.
func (u *update) Accept() {
	u.accepted = true
	for _, o := range u.orders {
		u.world.accepted[o] = true
	}
}

// Reject implements Temporal's UpdateCallbacks. A rejected Update leaves no trace.
func (u *update) Reject(err error) {
	u.over, u.err = true, err
	if u.run.updates[u.id] == u {
		delete(u.run.updates, u.id)
	}
	u.world.answerAll(u)
}

// Complete implements Temporal's UpdateCallbacks.
func (u *update) Complete(_ any, err error) {
	u.over, u.err = true, err
	u.world.answerAll(u)
}

// answerAll answers every order that waits for an Update.
func (w *World) answerAll(u *update) {
	for _, o := range u.orders {
		var app *temporal.ApplicationError
		switch {
		case u.err == nil:
			w.answer(o, answerDone, "")
		case errors.As(u.err, &app):
			w.answer(o, app.Type(), app.Message())
		default:
			w.breakf("%s was answered by %v, which is no error for users", o.ID, u.err)
			w.answer(o, answerUnknown, u.err.Error())
		}
	}
}

// answer gives a user the answer, once, and checks that it is true.
func (w *World) answer(o *Order, kind, message string) {
	if o.Answer != "" || w.ending {
		return
	}
	o.Answer, o.Message = kind, message
	did := w.effects[o.ID]
	w.tracef("user: %s is answered: %s %s (%+v)", o.ID, kind, message, did)
	switch kind {
	case answerDone:
		if did.done == 0 {
			w.breakf("%s is answered as done, but was not done", o.ID)
		}
	case contract.RefusedState, contract.RefusedPhase, contract.RefusedProbed, contract.RefusedGone, answerAbsent:
		// A later request with the same ID may be refused because of what the first one has done.
		if did.done > 0 && w.requestCount(o.ID) == 1 {
			w.breakf("%s is refused (%s %q), but was done", o.ID, kind, message)
		}
	case contract.RefusedAway:
		if did.done > 0 && (strings.Contains(message, "has begun it") ||
			strings.Contains(message, "has not begun it")) {
			w.breakf("%s is answered as not begun (%q), but was done", o.ID, message)
		}
	case contract.RefusedFailed:
		if did.done > 0 && did.tried == did.done {
			w.breakf("%s is answered as failed (%q), but was done", o.ID, message)
		}
	}
}

// requestCount returns the number of requests with an ID.
func (w *World) requestCount(id string) int {
	n := 0
	for _, o := range w.orders {
		if o.ID == id {
			n++
		}
	}
	return n
}

// checkOrders checks the answers of all requests at the end of a story.
func (w *World) checkOrders() {
	w.Until(doneTimeout+time.Second, func() bool {
		return !slices.ContainsFunc(w.orders, func(o *Order) bool { return o.Answer == "" })
	})
	for _, o := range w.orders {
		if o.Answer == "" {
			w.breakf("%s of %s was never answered", o.ID, o.at.Sub(w.began))
		}
		most := 1
		if w.hasLostRequests() { // only Temporal knows which requests it has received
			most = 2
		}
		if did := w.effects[o.ID]; did.changed > most {
			w.breakf("%s was done %d times", o.ID, did.changed)
		}
	}
}

// ask requests an operation and waits for the answer.
func (w *World) ask(name string, o contract.Operation, id string) {
	order := w.Operate(name, o, id, 0)
	w.Until(doneTimeout+time.Second, func() bool { return order.Answer != "" })
}

// RepeatRequest repeats the last request to a VMI, with its ID.
func (w *World) RepeatRequest(name string) {
	if n := len(w.orders); n > 0 {
		last := w.orders[n-1]
		w.Operate(name, last.Operation, last.name, last.thawAfter)
	}
}

// RequestNew requests an operation with an ID of its own.
func (w *World) RequestNew(name string, o contract.Operation, thawAfter time.Duration) *Order {
	w.requests++
	return w.Operate(name, o, strconv.Itoa(w.requests), thawAfter)
}

// requestUntil requests an operation again and again, each time with a new ID, until it is done or so returns true, as
// a person would.
func (w *World) requestUntil(name string, o contract.Operation, thawAfter time.Duration, so func() bool) {
	w.Until(w.patience(), func() bool {
		if so() {
			return true
		}
		order := w.RequestNew(name, o, thawAfter)
		w.Until(doneTimeout+time.Second, func() bool { return order.Answer != "" })
		if order.Answer != answerDone {
			w.Sleep(10 * time.Second)
		}
		return order.Answer == answerDone || so()
	})
}
