// Package server runs Temporal's services and its UI in one process, from start to stop.
package server
