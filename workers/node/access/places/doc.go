// Package places counts what is done at a time, so that nobody takes all of it: each of several owners has a share.
package places
