#!/bin/sh
# SPDX-License-Identifier: MIT OR GPL-2.0-only
#
# Requests of ioctl(), and options of sockets with their levels, by name: as the kernel's headers of this machine have
# them. Which headers and which options is said here; what is not in the headers is left out.
# Usage: gen-requests.sh CC...
set -eu

headers="asm/ioctls asm/socket asm/termbits linux/auto_dev-ioctl linux/auto_fs linux/blkpg linux/blkzoned linux/bsg
	linux/btrfs linux/cachefiles linux/cdrom linux/cec linux/dm-ioctl linux/dma-buf linux/dma-heap linux/dvb/ca
	linux/dvb/dmx linux/dvb/frontend linux/dvb/net linux/f2fs linux/fb linux/fd linux/firewire-cdev
	linux/fpga-dfl linux/fs linux/fscrypt linux/fsmap linux/fsverity linux/fuse linux/gpio linux/hdreg
	linux/hiddev linux/hidraw linux/hpet linux/i2c-dev linux/if linux/if_bridge linux/if_pppox linux/if_tun
	linux/input linux/iommufd linux/ipmi linux/joystick linux/kcov linux/kd linux/kvm linux/lirc linux/loop
	linux/lp linux/media linux/mei linux/mmc/ioctl linux/msdos_fs linux/mtio linux/nbd linux/ndctl
	linux/nilfs2_api linux/nsfs linux/nvme_ioctl linux/nvram linux/perf_event linux/pidfd linux/ppdev
	linux/ppp-ioctl linux/pps linux/pr linux/psp-sev linux/ptp_clock linux/raid/md_u linux/random linux/rfkill
	linux/rtc linux/seccomp linux/sed-opal linux/serial linux/sev-guest linux/sockios linux/soundcard
	linux/spi/spidev linux/suspend_ioctls linux/sync_file linux/tee linux/timerfd linux/tty linux/udmabuf
	linux/uinput linux/usb/cdc-wdm linux/usb/functionfs linux/usb/tmc linux/usbdevice_fs linux/userfaultfd
	linux/vduse linux/vfio linux/vhost linux/videodev2 linux/v4l2-subdev linux/vm_sockets linux/vt
	linux/watchdog linux/wireless mtd/mtd-abi mtd/ubi-user rdma/rdma_user_ioctl scsi/scsi_ioctl scsi/sg
	sound/asequencer sound/asound sound/compress_offload linux/icmp linux/if_alg linux/if_packet linux/if_xdp
	linux/in linux/in6 linux/netlink linux/rds linux/sctp linux/tcp linux/tipc linux/tls linux/udp linux/can
	linux/can/raw"

# The numbers of levels are in no header that the kernel gives away.
levels="IP=0 SOCKET=1 TCP=6 UDP=17 IPV6=41 ICMPV6=58 SCTP=132 UDPLITE=136 RAW=255 IPX=256 AX25=257 ATALK=258
	NETROM=259 ROSE=260 DECNET=261 X25=262 PACKET=263 ATM=264 AAL=265 IRDA=266 NETBEUI=267 LLC=268 DCCP=269
	NETLINK=270 TIPC=271 RXRPC=272 PPPOL2TP=273 BLUETOOTH=274 PNPIPE=275 RDS=276 IUCV=277 CAIF=278 ALG=279
	NFC=280 KCM=281 TLS=282 XDP=283 MPTCP=284 MCTP=285 SMC=286 VSOCK=287 CAN_RAW=101"

membership="ADD_MEMBERSHIP DROP_MEMBERSHIP"
groups="MCAST_JOIN_GROUP MCAST_BLOCK_SOURCE MCAST_UNBLOCK_SOURCE MCAST_LEAVE_GROUP MCAST_JOIN_SOURCE_GROUP
	MCAST_LEAVE_SOURCE_GROUP MCAST_MSFILTER"

# Options of a level: LEVEL, what the names begin with, and the rest of each.
options() {
	level=$1 prefix=$2
	shift 2
	for name; do
		echo "$level $prefix$name"
	done
}

all_options() {
	options IP IP_ TOS TTL HDRINCL OPTIONS ROUTER_ALERT RECVOPTS RETOPTS PKTINFO PKTOPTIONS MTU_DISCOVER RECVERR \
		RECVTTL RECVTOS MTU FREEBIND IPSEC_POLICY XFRM_POLICY PASSSEC TRANSPARENT ORIGDSTADDR MINTTL \
		NODEFRAG CHECKSUM BIND_ADDRESS_NO_PORT RECVFRAGSIZE RECVERR_RFC4884 MULTICAST_IF MULTICAST_TTL \
		MULTICAST_LOOP $membership UNBLOCK_SOURCE BLOCK_SOURCE ADD_SOURCE_MEMBERSHIP DROP_SOURCE_MEMBERSHIP \
		MSFILTER MULTICAST_ALL UNICAST_IF LOCAL_PORT_RANGE PROTOCOL
	options IP "" $groups
	options IPV6 IPV6_ ADDRFORM 2292PKTINFO 2292HOPOPTS 2292DSTOPTS 2292RTHDR 2292PKTOPTIONS CHECKSUM \
		2292HOPLIMIT NEXTHOP AUTHHDR UNICAST_HOPS MULTICAST_IF MULTICAST_HOPS MULTICAST_LOOP $membership \
		ROUTER_ALERT MTU_DISCOVER MTU RECVERR V6ONLY JOIN_ANYCAST LEAVE_ANYCAST MULTICAST_ALL \
		ROUTER_ALERT_ISOLATE RECVERR_RFC4884 IPSEC_POLICY XFRM_POLICY HDRINCL RECVPKTINFO PKTINFO \
		RECVHOPLIMIT HOPLIMIT RECVHOPOPTS HOPOPTS RTHDRDSTOPTS RECVRTHDR RTHDR RECVDSTOPTS DSTOPTS \
		RECVPATHMTU PATHMTU DONTFRAG RECVTCLASS TCLASS AUTOFLOWLABEL ADDR_PREFERENCES MINHOPCOUNT \
		ORIGDSTADDR TRANSPARENT UNICAST_IF RECVFRAGSIZE FREEBIND FLOWLABEL_MGR FLOWINFO_SEND
	options IPV6 "" $groups
	options TCP TCP_ NODELAY MAXSEG CORK KEEPIDLE KEEPINTVL KEEPCNT SYNCNT LINGER2 DEFER_ACCEPT WINDOW_CLAMP \
		INFO QUICKACK CONGESTION MD5SIG THIN_LINEAR_TIMEOUTS THIN_DUPACK USER_TIMEOUT REPAIR REPAIR_QUEUE \
		QUEUE_SEQ REPAIR_OPTIONS FASTOPEN TIMESTAMP NOTSENT_LOWAT CC_INFO SAVE_SYN SAVED_SYN REPAIR_WINDOW \
		FASTOPEN_CONNECT ULP MD5SIG_EXT FASTOPEN_KEY FASTOPEN_NO_COOKIE ZEROCOPY_RECEIVE INQ TX_DELAY \
		AO_ADD_KEY AO_DEL_KEY AO_INFO AO_GET_KEYS AO_REPAIR IS_MPTCP RTO_MAX_MS
	options UDP UDP_ CORK ENCAP NO_CHECK6_TX NO_CHECK6_RX SEGMENT GRO
	options UDPLITE UDPLITE_ SEND_CSCOV RECV_CSCOV
	options ICMPV6 ICMPV6_ FILTER
	options RAW ICMP_ FILTER
	options PACKET PACKET_ $membership RECV_OUTPUT RX_RING STATISTICS COPY_THRESH AUXDATA ORIGDEV VERSION HDRLEN \
		RESERVE TX_RING LOSS VNET_HDR TX_TIMESTAMP TIMESTAMP FANOUT TX_HAS_OFF QDISC_BYPASS ROLLOVER_STATS \
		FANOUT_DATA IGNORE_OUTGOING VNET_HDR_SZ
	options NETLINK NETLINK_ $membership PKTINFO BROADCAST_ERROR NO_ENOBUFS LISTEN_ALL_NSID LIST_MEMBERSHIPS \
		CAP_ACK EXT_ACK GET_STRICT_CHK
	options ALG ALG_SET_ KEY IV OP AEAD_ASSOCLEN AEAD_AUTHSIZE DRBG_ENTROPY KEY_BY_KEY_SERIAL
	options TLS TLS_ TX RX TX_ZEROCOPY_RO RX_EXPECT_NO_PAD
	options XDP XDP_ MMAP_OFFSETS RX_RING TX_RING UMEM_REG UMEM_FILL_RING UMEM_COMPLETION_RING STATISTICS \
		OPTIONS
	options CAN_RAW CAN_RAW_ FILTER ERR_FILTER LOOPBACK RECV_OWN_MSGS FD_FRAMES JOIN_FILTERS XL_FRAMES
	options TIPC TIPC_ IMPORTANCE SRC_DROPPABLE DEST_DROPPABLE CONN_TIMEOUT NODE_RECVQ_DEPTH SOCK_RECVQ_DEPTH \
		MCAST_BROADCAST MCAST_REPLICAST GROUP_JOIN GROUP_LEAVE SOCK_RECVQ_USED NODELAY
	options SCTP SCTP_ RTOINFO ASSOCINFO INITMSG NODELAY AUTOCLOSE SET_PEER_PRIMARY_ADDR PRIMARY_ADDR \
		ADAPTATION_LAYER DISABLE_FRAGMENTS PEER_ADDR_PARAMS DEFAULT_SEND_PARAM EVENTS I_WANT_MAPPED_V4_ADDR \
		MAXSEG STATUS GET_PEER_ADDR_INFO DELAYED_ACK_TIME CONTEXT FRAGMENT_INTERLEAVE PARTIAL_DELIVERY_POINT \
		MAX_BURST AUTH_CHUNK HMAC_IDENT AUTH_KEY AUTH_ACTIVE_KEY AUTH_DELETE_KEY PEER_AUTH_CHUNKS \
		LOCAL_AUTH_CHUNKS GET_ASSOC_NUMBER GET_ASSOC_ID_LIST AUTO_ASCONF PEER_ADDR_THLDS RECVRCVINFO \
		RECVNXTINFO DEFAULT_SNDINFO SOCKOPT_BINDX_ADD SOCKOPT_BINDX_REM SOCKOPT_PEELOFF GET_PEER_ADDRS \
		GET_LOCAL_ADDRS SOCKOPT_CONNECTX
	# Those of all sockets are what the headers have, but for other families' and forms of what others name.
	sed -nE 's/^#define (SO_[A-Z0-9_]+) .*/SOCKET \1/p' "$1" | grep -vE ' SO_(VM|RDS)_|_(OLD|NEW)$'
}

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
{
	printf '#include <%s.h>\n' stddef stdint linux/types linux/ioctl linux/socket
	for header in $headers; do
		printf '#if __has_include(<%s.h>)\n#include <%s.h>\n#endif\n' "$header" "$header"
	done
} >"$tmp/headers.h"
"$@" -E -dM -x c "$tmp/headers.h" >"$tmp/macros"

request='.*_IO(R|W|WR|C|R_BAD|W_BAD|WR_BAD)? *\(.*'
plain='(0x[0-9A-Fa-f]+|\(?(SIOC|TIOC)[A-Z]* *(\+ *[0-9]+)?\)?)'
families='(SIOC|TC[GSFX]|TIOC|FIO|LOOP_|CDROM|DVD_|HDIO_|SG_|SCSI_IOCTL|KD|VT_|GIO|PIO)[A-Z0-9_]*'
{
	sed -nE -e "s/^#define ([A-Z][A-Za-z0-9_]*) $request$/REQUEST \1/p" \
		-e "s/^#define ($families) $plain( .*)?$/PLAIN \1/p" "$tmp/macros"
	all_options "$tmp/macros"
} | LC_ALL=C sort -u >"$tmp/names"

# What the compiler cannot tell, as of another machine, goes; the second time there is nothing more of that.
before=$(wc -l <"$tmp/headers.h")
for turn in 1 2 3; do
	{
		cat "$tmp/headers.h"
		sed 's/\([A-Z0-9_]*\) \(.*\)/const unsigned long dp_\1__\2 = (unsigned int)(\2);/' "$tmp/names"
	} >"$tmp/values.c"
	"$@" -w -S -fno-lto -o "$tmp/values.s" "$tmp/values.c" 2>"$tmp/errors" && break
	test $turn -lt 3
	sed -nE "s,^$tmp/values.c:([0-9]+):.*,\1,p" "$tmp/errors" >"$tmp/bad"
	awk -v before="$before" 'NR == FNR { bad[$1 - before] = 1; next } !(FNR in bad)' "$tmp/bad" "$tmp/names" \
		>"$tmp/left"
	mv "$tmp/left" "$tmp/names"
done

for level in $levels; do
	echo "DP_CALL_LEVEL(SOL_${level%=*}, ${level#*=})"
done
awk '/^dp_.*:/ { name = $1 }
	/^\t\.(quad|zero|xword|8byte)/ && name { print name, $1 == ".zero" ? 0 : $2; name = "" }' "$tmp/values.s" |
	sed -E 's/^dp_([A-Z0-9_]*)__([A-Za-z0-9_]*): /\1 \2 /' | LC_ALL=C sort | awk -v levels="$levels" '
	BEGIN {
		n = split(levels, of)
		for (i = 1; i <= n; i++) {
			split(of[i], parts, "=")
			number[parts[1]] = parts[2]
		}
	}
	$1 == "PLAIN" && $3 < 768 { next } # constants of the same headers
	$1 == "PLAIN" { $1 = "REQUEST" }
	!(($1, $3) in names) { order[++all] = $1 SUBSEP $3 }
	{ names[$1, $3] = names[$1, $3] (($1, $3) in names && names[$1, $3] ? " or " : "") $2 }
	END {
		for (i = 1; i <= all; i++) {
			split(order[i], key, SUBSEP)
			if (key[1] == "REQUEST")
				printf "DP_CALL_REQUEST(\"%s\", %su)\n", names[order[i]], key[2]
			else
				printf "DP_CALL_OPTION(\"%s\", %s, %s)\n", names[order[i]], number[key[1]], key[2]
		}
	}'
