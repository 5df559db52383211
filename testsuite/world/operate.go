package world

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/virtflow/virtflow/workflows/contract"
)

// How long the API server waits: until an entity accepts or refuses, and from the request until it is done.
const (
	acceptTimeout = contract.OperationAccepted
	doneTimeout   = contract.OperationAnswered
)

// Types of answers that only the API server gives.
const (
	answerDone    = "done"
	answerUnknown = "unknown" // whether it was done, nobody can say
	answerAbsent  = "absent"  // there is no such instance, or no entity of it
)

// Order is what a user asked of a running guest, and how it was answered.
type Order struct {
	ID        string
	Operation contract.Operation
	// Answer is answerDone and the like, or the type of the error that refused it; "" until there is one.
	Answer  string
	Message string

	at        time.Time
	name      string // of the user's own, the same for a request that is repeated
	thawAfter time.Duration
}

// effects are what launchers did under one ID, whoever asked and however often.
type effects struct {
	tried   int // attempts of the activity that had an effect on the world
	done    int // of which the launcher did what was asked, or found it done
	changed int // of which something changed by it: a button pressed, a guest paused that was not
}

// Operate asks for an operation on the running guest of a VMI, as the API server does for its users: through an Update
// of that ID. ThawAfter is of a freeze. It does not wait for the answer.
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
			w.answer(order, answerUnknown, "nobody decides about it")
		}
	})
	w.after(doneTimeout, func() { w.answer(order, answerUnknown, "it was begun, and no answer came") })
	w.after(signalLag, func() { w.update(contract.VMIID(Namespace, name), order, r) })
	return order
}

// update brings an order to its entity. As Temporal does, it hands an Update that a run has already to whoever asks
// again, and one that comes between two runs to the next.
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
			w.answered(u)
		}
		return
	}
	u := &update{world: w, run: run, id: order.ID, orders: []*Order{order}}
	run.updates[order.ID] = u
	w.updates++
	// the test environment takes an ID for the same in every run of every workflow
	sent := fmt.Sprintf("%s#%d", order.ID, w.updates)
	if err := w.env.UpdateWorkflowByID(id, string(order.Operation), sent, u, r); err != nil {
		delete(run.updates, order.ID)
		w.answer(order, answerAbsent, err.Error())
		return
	}
	w.after(time.Millisecond, func() {
		if !u.seen && run.updates[order.ID] == u { // lost with the run that it reached too late
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
	// accepted is before over; err is how it ended then.
	accepted, over bool
	err            error
}

// Accept is part of Temporal's UpdateCallbacks.
func (u *update) Accept() {
	u.accepted = true
	for _, o := range u.orders {
		u.world.accepted[o] = true
	}
}

// Reject is part of Temporal's UpdateCallbacks: of such an Update nothing stays.
func (u *update) Reject(err error) {
	u.over, u.err = true, err
	if u.run.updates[u.id] == u {
		delete(u.run.updates, u.id)
	}
	u.world.answered(u)
}

// Complete is part of Temporal's UpdateCallbacks.
func (u *update) Complete(_ any, err error) {
	u.over, u.err = true, err
	u.world.answered(u)
}

// answered tells everybody who asked.
func (w *World) answered(u *update) {
	for _, o := range u.orders {
		var app *temporal.ApplicationError
		switch {
		case u.err == nil:
			w.answer(o, answerDone, "")
		case errors.As(u.err, &app):
			w.answer(o, app.Type(), app.Message())
		default:
			w.breakf("%s was answered by %v, which is nothing for a user", o.ID, u.err)
			w.answer(o, answerUnknown, u.err.Error())
		}
	}
}

// answer is what a user is told, once. What it says must be so.
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
			w.breakf("%s is said to be done, and was not", o.ID)
		}
	case contract.RefusedState, contract.RefusedPhase, contract.RefusedProbed, contract.RefusedGone, answerAbsent:
		// A later request of the same ID may be refused for what the first one has done.
		if did.done > 0 && w.asked(o.ID) == 1 {
			w.breakf("%s is refused (%s %q), and was done", o.ID, kind, message)
		}
	case contract.RefusedAway:
		if did.done > 0 && (strings.Contains(message, "has begun it") ||
			strings.Contains(message, "has not begun it")) {
			w.breakf("%s is said not to have begun (%q), and was done", o.ID, message)
		}
	case contract.RefusedFailed:
		if did.done > 0 && did.tried == did.done {
			w.breakf("%s is said to have failed (%q), and was done", o.ID, message)
		}
	}
}

// asked is how many requests there have been of an ID.
func (w *World) asked(id string) int {
	n := 0
	for _, o := range w.orders {
		if o.ID == id {
			n++
		}
	}
	return n
}

// checkOrders looks at everything that was asked for, when all is over.
func (w *World) checkOrders() {
	w.Until(doneTimeout+time.Second, func() bool {
		return !slices.ContainsFunc(w.orders, func(o *Order) bool { return o.Answer == "" })
	})
	for _, o := range w.orders {
		if o.Answer == "" {
			w.breakf("%s of %s was never answered", o.ID, o.at.Sub(w.began))
		}
		most := 1
		if w.forgetful() { // which requests it has had only Temporal knows
			most = 2
		}
		if did := w.effects[o.ID]; did.changed > most {
			w.breakf("%s was done %d times", o.ID, did.changed)
		}
	}
}

// ask asks for an operation and waits for the answer.
func (w *World) ask(name string, o contract.Operation, id string) {
	order := w.Operate(name, o, id, 0)
	w.Until(doneTimeout+time.Second, func() bool { return order.Answer != "" })
}

// Again repeats the last request about a VMI, under its ID.
func (w *World) Again(name string) {
	if n := len(w.orders); n > 0 {
		last := w.orders[n-1]
		w.Operate(name, last.Operation, last.name, last.thawAfter)
	}
}

// Anew asks for an operation under an ID of its own.
func (w *World) Anew(name string, o contract.Operation, thawAfter time.Duration) *Order {
	w.requests++
	return w.Operate(name, o, strconv.Itoa(w.requests), thawAfter)
}

// urge asks again and again, each time anew, until it is done or what was to come of it is so. A person would.
func (w *World) urge(name string, o contract.Operation, thawAfter time.Duration, so func() bool) {
	w.Until(w.patience(), func() bool {
		if so() {
			return true
		}
		order := w.Anew(name, o, thawAfter)
		w.Until(doneTimeout+time.Second, func() bool { return order.Answer != "" })
		if order.Answer != answerDone {
			w.Sleep(10 * time.Second)
		}
		return order.Answer == answerDone || so()
	})
}
