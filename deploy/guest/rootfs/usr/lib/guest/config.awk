# Makes lines "verb<TAB>argument" of the simple forms of a #cloud-config:
#   hostname: NAME              password: WORD          chpasswd: {expire: false}
#   chpasswd:                   ssh_authorized_keys:    runcmd:
#     list: |                     - ssh-ed25519 AAAA…     - echo hello
#       root:WORD                                         - [ sh, -c, "echo hello" ]
# This is not YAML: one level of lists, no anchors, no multi-line strings but the list of chpasswd.

function trim(s) { sub(/^[ \t]+/, "", s); sub(/[ \t]+$/, "", s); return s }

function unquote(s) {
	s = trim(s)
	if (s ~ /^".*"$/) {
		s = substr(s, 2, length(s) - 2)
		gsub(/\\"/, "\"", s)
		gsub(/\\\\/, "\\", s)
	} else if (s ~ /^'.*'$/) {
		s = substr(s, 2, length(s) - 2)
		gsub(/''/, "'", s)
	} else {
		sub(/[ \t]+#.*$/, "", s)
	}
	return s
}

# "[ sh, -c, "a, b" ]" becomes one shell line with each argument in single quotes.
function words(s,    i, c, quote, word, started, line) {
	s = trim(s)
	s = substr(s, 2, length(s) - 2)
	for (i = 1; i <= length(s); i++) {
		c = substr(s, i, 1)
		if (quote == "\"" && c == "\\") { i++; word = word substr(s, i, 1) }
		else if (quote != "" && c == quote) quote = ""
		else if (quote != "") word = word c
		else if ((c == "\"" || c == "'") && trim(word) == "") { quote = c; word = ""; started = 1 }
		else if (c == ",") { line = line shell_quote(started ? word : trim(word)) " "; word = ""; started = 0 }
		else if (!(started && c == " ")) word = word c
	}
	if (started || trim(word) != "") line = line shell_quote(started ? word : trim(word))
	return line
}

function shell_quote(s) { gsub(/'/, "'\\''", s); return "'" s "'" }

function emit(verb, argument) { if (argument != "") printf "%s\t%s\n", verb, argument }

function command(item) { emit("run", item ~ /^\[.*\]$/ ? words(item) : unquote(item)) }

/^[ \t]*#/ || /^[ \t]*$/ { next }

/^[A-Za-z_]/ {
	key = $0
	sub(/:.*/, "", key)
	value = $0
	sub(/^[^:]*:/, "", value)
	value = trim(value)
	block = ""
	if (key == "hostname") emit("hostname", unquote(value))
	else if (key == "fqdn") { if (!named) emit("hostname", unquote(value)) }
	else if (key == "password") emit("password", unquote(value))
	else if (key == "chpasswd" || key == "ssh_authorized_keys" || key == "runcmd" || key == "bootcmd") block = key
	else if (key != "ssh_pwauth" && key != "disable_root" && key != "user" && key != "manage_etc_hosts") { emit("unknown", key); block = "unknown" }
	if (key == "hostname") named = 1
	in_list = 0
	next
}

block == "ssh_authorized_keys" && /^[ \t]*- / { item = $0; sub(/^[ \t]*- /, "", item); emit("key", unquote(item)); next }
(block == "runcmd" || block == "bootcmd") && /^[ \t]*- / { item = $0; sub(/^[ \t]*- /, "", item); command(trim(item)); next }
block == "chpasswd" && /^[ \t]+list:/ { in_list = 1; next }
block == "chpasswd" && /^[ \t]+expire:/ { next }
block == "chpasswd" && in_list { item = $0; sub(/^[ \t]*(- )?/, "", item); emit("chpasswd", unquote(item)); next }
block == "unknown" { next }
{ emit("unknown", trim($0)) }
