package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"net/url"
	"strings"

	"github.com/mattn/go-sqlite3"
)

func init() { sql.Register("sqlite", Driver{}) }

// Driver opens databases by names like file:PATH?mode=rwc&_pragma=journal_mode=wal. Each _pragma is set in the order of
// the name; what is not set is as SQLite has it. Other parameters are those of SQLite's URIs and of go-sqlite3. Times
// are always stored as _time_format=sqlite says.
type Driver struct{}

// Open opens a database.
func (Driver) Open(name string) (driver.Conn, error) {
	path, query, _ := strings.Cut(name, "?")
	parameters, err := url.ParseQuery(query)
	if err != nil {
		return nil, fmt.Errorf("the data source name %q: %w", name, err)
	}
	pragmas := parameters["_pragma"]
	parameters.Del("_pragma")
	parameters.Del("_time_format")
	// SQLite's defaults, instead of go-sqlite3's, which sets the second when it may have to wait for another process.
	busy := "0"
	for _, p := range pragmas {
		if timeout, ok := strings.CutPrefix(p, "busy_timeout="); ok {
			busy = timeout
		}
	}
	parameters.Set("_busy_timeout", busy)
	parameters.Set("_synchronous", "FULL")
	c := &sqlite3.SQLiteDriver{ConnectHook: func(c *sqlite3.SQLiteConn) error {
		for _, p := range pragmas {
			if _, err := c.Exec("PRAGMA "+p, nil); err != nil {
				return fmt.Errorf("the pragma %s: %w", p, coded(err))
			}
		}
		return nil
	}}
	opened, err := c.Open(path + "?" + parameters.Encode())
	if err != nil {
		return nil, coded(err)
	}
	return conn{opened.(*sqlite3.SQLiteConn)}, nil
}

// conn is a connection whose errors have codes. Those of the end of a transaction, and of statements that are prepared
// separately, have none: the plugin asks for codes only of what it executes, and prepares nothing.
type conn struct{ *sqlite3.SQLiteConn }

func (c conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	r, err := c.SQLiteConn.ExecContext(ctx, query, args)
	return r, coded(err)
}

func (c conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	r, err := c.SQLiteConn.QueryContext(ctx, query, args)
	return r, coded(err)
}

// Error is an error of SQLite.
type Error struct{ cause sqlite3.Error }

// Code is the extended result code.
func (e *Error) Code() int { return int(e.cause.ExtendedCode) }

func (e *Error) Error() string {
	return fmt.Sprintf("%s: %s (%d)", e.cause.Code.Error(), e.cause.Error(), e.Code())
}

// Unwrap returns go-sqlite3's error.
func (e *Error) Unwrap() error { return e.cause }

// coded is an error of SQLite as an *Error, any other as it is.
func coded(err error) error {
	if e, ok := err.(sqlite3.Error); ok { //nolint:errorlint // go-sqlite3 does not wrap it, and a wrapping is to stay
		return &Error{e}
	}
	return err
}
