// Package tables draws the state tables of the workflows as documentation, and checks them: no state without a way out,
// none that nothing leads to, no combination without a decision. What it draws is what the planners look up, so that
// the two cannot differ.
package tables
