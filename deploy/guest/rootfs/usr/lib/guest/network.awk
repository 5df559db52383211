# Makes lines "verb<TAB>interface<TAB>argument" of a network-config of version 2, as netplan has it, in block form:
#   ethernets:
#     eth0:
#       dhcp4: true
#       addresses:
#       - 10.0.0.2/24
#       gateway4: 10.0.0.1
#       match: {macaddress: …}    set-name: eth0    (each on a line of its own)
#       routes:
#       - to: ::/0
#         via: fd00::1
#       nameservers:
#         addresses:
#         - 10.96.0.10
# Names come first, because all else needs them.

function unquote(s) { gsub(/^[ \t"']+|[ \t"']+$/, "", s); return s }
function emit(verb, argument) { if (interface && argument) out = out verb "\t" interface "\t" argument "\n" }
function finish() { if (mac != "" && name != "") printf "rename\t%s\t%s\n", name, tolower(mac); mac = name = "" }

/^[ \t]*(#|$)/ { next }
/^[^ ]/ { inside = ($1 == "ethernets:"); next }
!inside { next }
{
	match($0, /^ */)
	depth = RLENGTH
	line = substr($0, depth + 1)
	item = sub(/^- */, "", line)
	key = value = line
	sub(/:([ \t].*)?$/, "", key)
	if (!sub(/^[^ \t]*:[ \t]+/, "", value)) value = ""
	value = unquote(value)
}
depth == 2 { finish(); interface = unquote(key); section = ""; next }
depth == 4 && !item {
	section = key
	if (key == "dhcp4" && value == "true") emit("dhcp4", " ")
	else if (key == "gateway4" || key == "gateway6") emit("route", "default " value)
	else if (key == "set-name") name = value
	next
}
section == "match" && key == "macaddress" { mac = value }
section == "addresses" && item { emit("address", unquote(line)) }
section == "nameservers" && item && line !~ /[a-z]/ { emit("nameserver", unquote(line)) }
section == "routes" && key == "to" { to = value == "0.0.0.0/0" || value == "::/0" ? "default" : value }
section == "routes" && key == "via" { emit("route", to " " value) }
END { finish(); printf "%s", out }
