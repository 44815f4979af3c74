#!/bin/sh
# Usage: install.sh [--race | --node]
#
# Installs the two server programs that the local stack takes from the system:
# redis-server and PostgreSQL. NATS and etcd are built from their Go modules.
#
# Quiet when nothing is missing. On Debian and its relatives, as root or through
# sudo, it installs the packages and lets no system service start, neither now
# nor at the next boot, and no database cluster appear on port 5432. Elsewhere
# it says what to install and ends with 1.
#
# With --race also what only the tests need: a C compiler for Go's race detector on
# Linux, Prometheus with promtool for the alert rules and the dashboards, nginx for the
# example of a gateway, and Chromium for the buyer page.
# With --node also Node 20 or later and npm, which build the console: only for who
# changes it, and for CI, which builds it again.
# Certificate authorities, which Go needs to fetch modules, are added where there are none.
set -eu
extra=${1:-}

policy=/usr/sbin/policy-rc.d
saved=$policy.before-seckill
nocluster=/etc/postgresql-common/createcluster.d/seckill-no-main-cluster.conf

have_redis() {
	command -v redis-server >/dev/null 2>&1 ||
		[ -x /usr/local/bin/redis-server ] || [ -x /opt/homebrew/bin/redis-server ]
}

# The same places that deploy/stack looks in.
have_postgres() {
	for initdb in /usr/lib/postgresql/*/bin/initdb /usr/pgsql-*/bin/initdb \
		/opt/homebrew/opt/postgresql*/bin/initdb /usr/local/opt/postgresql*/bin/initdb \
		/usr/local/pgsql/bin/initdb "$(command -v initdb 2>/dev/null || true)"; do
		if [ -x "$initdb" ] && [ -x "$(dirname "$initdb")/postgres" ]; then
			return 0
		fi
	done
	return 1
}

have_compiler() {
	[ "$extra" != --race ] || [ "$(uname -s)" != Linux ] ||
		command -v "${CC:-gcc}" >/dev/null 2>&1
}

have_prometheus() {
	[ "$extra" != --race ] || { command -v promtool >/dev/null 2>&1 && command -v prometheus >/dev/null 2>&1; }
}

# The sender of the lab is compared with it.
have_wrk() {
	[ "$extra" != --race ] || command -v wrk >/dev/null 2>&1
}

# A sale goes through the example of a gateway.
have_nginx() {
	[ "$extra" != --race ] || command -v nginx >/dev/null 2>&1 || [ -x /usr/sbin/nginx ]
}

have_browser() {
	[ "$extra" != --race ] || command -v chromium >/dev/null 2>&1 || command -v chromium-browser >/dev/null 2>&1 ||
		command -v google-chrome >/dev/null 2>&1 || [ -d "/Applications/Google Chrome.app" ]
}

# npm runs on the node that it finds first; both have to be there.
have_node() {
	[ "$extra" != --node ] || { command -v npm >/dev/null 2>&1 &&
		node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' >/dev/null 2>&1; }
}

# Go needs them to fetch modules, and a minimal Debian has none.
have_certificates() {
	[ "$(uname -s)" != Linux ] || [ -n "${SSL_CERT_FILE:-}${SSL_CERT_DIR:-}" ] ||
		[ -e /etc/ssl/certs/ca-certificates.crt ] || [ -e /etc/pki/tls/certs/ca-bundle.crt ] ||
		[ -e /etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem ] ||
		[ -e /etc/ssl/cert.pem ] || [ -e /etc/ssl/ca-bundle.pem ]
}

# The names are those of Debian's packages.
find_missing() {
	missing=
	have_redis || missing="$missing redis-server"
	have_postgres || missing="$missing postgresql"
	have_compiler || missing="$missing gcc libc6-dev"
	have_prometheus || missing="$missing prometheus"
	have_wrk || missing="$missing wrk"
	have_nginx || missing="$missing nginx-light"
	have_browser || missing="$missing chromium"
	have_node || missing="$missing nodejs npm"
	have_certificates || missing="$missing ca-certificates"
	missing=${missing# }
}

# The same packages under the names of another system.
named() {
	echo "$missing" | sed -e 's/ libc6-dev//' -e "$@"
}

give_up() {
	{
		echo "install: $1"
		echo "install: still missing: $missing. Install them and run the command again:"
		echo "  Debian, Ubuntu   sudo apt-get install --no-install-recommends $missing"
		echo "  Fedora, RHEL     sudo dnf install $(named 's/redis-server/redis/; s/nginx-light/nginx/; s/postgresql/postgresql-server postgresql-contrib/; s/prometheus/golang-github-prometheus/')"
		echo "  Arch             sudo pacman -S $(named 's/redis-server/redis/; s/nginx-light/nginx/')"
		echo "  Alpine           sudo apk add $(named 's/redis-server/redis/; s/nginx-light/nginx/; s/gcc/gcc musl-dev/; s/postgresql/& postgresql-contrib/')"
		echo "  macOS            brew install $(named 's/redis-server/redis/; s/nginx-light/nginx/; s/postgresql/postgresql@17/; s/chromium/google-chrome/; s/nodejs npm/node/')"
		case $missing in *npm*) echo "  Node has to be of version 20 or later: Debian 13, or https://nodejs.org" ;; esac
		echo "No service has to run: only the programs are used, on free ports with private folders."
	} >&2
	exit 1
}

# Puts back what forbid_services changed. Also called on failure and on signals,
# and first thing in the next run should this one be killed outright.
restore_services() {
	if [ -e "$saved" ] || [ -L "$saved" ]; then
		mv -f "$saved" "$policy"
	elif [ -f "$policy" ] && grep -q '^# seckill: temporary' "$policy"; then
		rm -f "$policy"
	fi
	rm -f "$nocluster"
}

# invoke-rc.d and deb-systemd-invoke ask policy-rc.d before they start anything;
# 101 means forbidden.
forbid_services() {
	if [ -e "$policy" ] || [ -L "$policy" ]; then
		mv -f "$policy" "$saved"
	fi
	printf '#!/bin/sh\n# seckill: temporary, while packages are installed\nexit 101\n' >"$policy"
	chmod 755 "$policy"
	mkdir -p "$(dirname "$nocluster")"
	echo "create_main_cluster = false" >"$nocluster"
}

install_as_root() {
	# Two runs at once would restore each other's policy file.
	exec 9>/var/lock/seckill-install
	flock -w 600 9 || give_up "another installation still runs after ten minutes"
	restore_services
	find_missing
	[ -n "$missing" ] || exit 0

	trap restore_services EXIT
	trap 'exit 130' HUP INT TERM
	forbid_services
	export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1
	apt="apt-get -q -y -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0"
	echo "install: installing $missing (no service will be started)" >&2
	log=$(mktemp)
	# The lists may be absent (containers) or stale (a package moved on).
	# shellcheck disable=SC2086 # $apt and $missing are lists of words
	if ! $apt install --no-install-recommends $missing </dev/null >"$log" 2>&1 9>&-; then
		if ! { $apt update && $apt install --no-install-recommends $missing; } </dev/null >"$log" 2>&1 9>&-; then
			cat "$log" >&2
			rm -f "$log"
			give_up "apt-get could not install $missing"
		fi
	fi
	rm -f "$log"
	for package in $missing; do # not at the next boot either; some have no service
		systemctl disable "$package.service" >/dev/null 2>&1 ||
			DPKG_MAINTSCRIPT_PACKAGE=$package deb-systemd-helper disable "$package.service" >/dev/null 2>&1 || true
	done
	find_missing
	[ -z "$missing" ] || give_up "apt-get reported success, but the programs are not there"
}

find_missing
[ -n "$missing" ] || exit 0
command -v apt-get >/dev/null 2>&1 && command -v flock >/dev/null 2>&1 ||
	give_up "this system has no apt-get, so nothing was installed"
if [ "$(id -u)" = 0 ]; then
	install_as_root
elif ! command -v sudo >/dev/null 2>&1; then
	give_up "not root, and there is no sudo"
elif sudo -n true 2>/dev/null || [ -t 0 ]; then
	sudo sh "$0" "$extra"
else
	give_up "not root, and sudo wants a password but there is no terminal to ask on"
fi
