package schema

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"

	"go.temporal.io/server/common/persistence/sql/sqlplugin"
	_ "go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite" // the driver and the server's plugin
	"go.temporal.io/server/schema/sqlite"
)

// ErrOtherVersion is returned for a database whose tables another version of the server made.
var ErrOtherVersion = errors.New("made by another version of the Temporal server")

// Ensure makes the tables of the running server's version in the SQLite file, which is created if missing. It is one
// transaction: a kill at any moment leaves no tables or all. A file that has them is left as it is.
func Ensure(ctx context.Context, path string) (err error) {
	statements, err := statements()
	if err != nil {
		return err
	}
	// SQLite's user_version is free for the application: here it says which tables are in the file, whatever the indexes.
	version := int(crc32.ChecksumIEEE([]byte(strings.Join(statements, ";"))) & 0x7fffffff)

	db, err := sql.Open("sqlite", "file:"+path+"?mode=rwc&_pragma=busy_timeout=10000")
	if err != nil {
		return fmt.Errorf("opening %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("opening %s: %w", path, err)
	}
	defer func() { _ = tx.Rollback() }() // no effect after a commit
	var found, tables int
	if err := tx.QueryRowContext(ctx, "PRAGMA user_version").Scan(&found); err != nil {
		return fmt.Errorf("reading the version of %s: %w", path, err)
	}
	if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_master").Scan(&tables); err != nil {
		return fmt.Errorf("reading the tables of %s: %w", path, err)
	}
	switch {
	case found == version:
		return nil
	case tables > 0:
		return fmt.Errorf("%s: %w; move the data directory away to start with empty histories (virtual machines are "+
			"not affected)", path, ErrOtherVersion)
	}
	for _, statement := range statements {
		if superfluous(statement) {
			continue
		}
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("making the tables of %s: %w", path, err)
		}
	}
	if _, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", version)); err != nil {
		return fmt.Errorf("writing the version of %s: %w", path, err)
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("making the tables of %s: %w", path, err)
	}
	return nil
}

// superfluous reports whether a statement makes an index of visibility that is not worth its cost here. The server has
// one for each column, 58 in all, and every start, change and end of a workflow writes each of them. The remaining ones
// are for common searches, and for search attributes that are keywords, as all of virtflow's are; a query by another
// attribute reads all workflows of the namespace.
func superfluous(statement string) bool {
	words := strings.Fields(statement)
	if len(words) < 5 || !strings.EqualFold(strings.Join(words[:2], " "), "create index") ||
		words[4] != "executions_visibility" {
		return false
	}
	switch index := words[2]; index {
	case "default_idx", "by_workflow_id", "by_workflow_type", "by_status":
		return false
	default:
		return !strings.HasPrefix(index, "by_keyword_")
	}
}

// statements returns the statements with which the server itself sets up a SQLite database.
func statements() ([]string, error) {
	var recorder recorder
	if err := sqlite.SetupSchemaOnDB(&recorder); err != nil {
		return nil, fmt.Errorf("reading the server's schema: %w", err)
	}
	return recorder.statements, nil
}

// recorder records the statements instead of a database; the set-up calls only Exec.
type recorder struct {
	sqlplugin.AdminDB

	statements []string
}

// Exec keeps the statement.
func (r *recorder) Exec(statement string, _ ...any) error {
	r.statements = append(r.statements, statement)
	return nil
}
