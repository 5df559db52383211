module modernc.org/sqlite

go 1.26.8

require (
	github.com/mattn/go-sqlite3 v1.14.53
	github.com/stretchr/testify v1.11.1
)

require (
	github.com/davecgh/go-spew v1.1.1 // indirect
	github.com/pmezard/go-difflib v1.0.0 // indirect
	gopkg.in/yaml.v3 v3.0.1 // indirect
)
