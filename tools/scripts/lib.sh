# Shared by the ensure-* scripts: sourced, not run.

# manager prints the package manager of this system, nothing when it has none we know.
manager() {
	for m in apt-get dnf apk pacman brew; do
		if command -v $m >/dev/null 2>&1; then
			echo $m
			return
		fi
	done
}

# may_install says whether packages may be installed without asking: as root,
# unless TERN_NO_INSTALL is set.
may_install() {
	[ -z "${TERN_NO_INSTALL:-}" ] && [ "$(id -u)" = 0 ] && [ "$(manager)" != brew ] && [ -n "$(manager)" ]
}

# install_command prints the command that installs packages here.
install_command() {
	case $(manager) in
	apt-get) echo "apt-get install --yes --no-install-recommends $*" ;;
	dnf) echo "dnf install --assumeyes $*" ;;
	apk) echo "apk add $*" ;;
	pacman) echo "pacman -S --needed --noconfirm $*" ;;
	brew) echo "brew install $*" ;;
	esac
}

# install_packages installs packages; its output goes to standard error.
install_packages() {
	echo "installing $*" >&2
	if [ "$(manager)" != apt-get ]; then
		$(install_command "$@") >&2
		return
	fi
	DEBIAN_FRONTEND=noninteractive
	export DEBIAN_FRONTEND
	apt-get -qq update >&2 && apt-get -qq --yes --no-install-recommends -o Dpkg::Use-Pty=0 install "$@" >/dev/null
}
