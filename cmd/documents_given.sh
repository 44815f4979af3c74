# What readers of the documents have when they come to a block of commands, and what
# the test of the documents needs; sourced by it. SALE is the folder of the stack.

at=start
out=/dev/null

# The end: say where it went wrong, and leave nothing behind.
finish() {
	status=$?
	if [ $status != 0 ]; then
		echo "failed at $at"
		tail -c 3000 "$out" out.service out.stack 2>/dev/null || true
	fi
	trap - EXIT
	for job in $(jobs -p); do kill -TERM -- "-$job" 2>/dev/null || true; done
	wait || true
	exit $status
}
trap finish EXIT
trap 'exit 1' TERM
set -m # each job has a group of its own, which ends with it

# The block in the background has said that it is ready.
await_ready() {
	for _ in $(seq 600); do
		if grep -q '^ready' "$out"; then return; fi
		kill -0 $! || return 1
		sleep 0.1
	done
	return 1
}

ended() {
	if [ "$1" != "$2" ]; then echo "ended with $1, not $2"; exit 1; fi
}

printed() {
	if ! grep -qF -- "$1" "$out"; then echo "did not print: $1"; exit 1; fi
}

# A stack, loaded as the first guide says.
given_stack() {
	out=out.stack
	bin/seckill-lab up --dir "$SALE" >$out 2>&1 &
	await_ready
	set -a; . "$SALE/stack.env"; set +a
	SECKILL_HTTP_ADDR=$BUYERS_AT SECKILL_ADMIN_ADDR=$OPERATORS_AT
}

given_service() {
	out=out.service
	bin/seckill serve >$out 2>&1 &
	service=$!
	await_ready
	# The partitions are taken, and their consumers made, a moment later.
	for _ in $(seq 100); do
		bin/seckill doctor >out.doctor 2>/dev/null || true
		if grep -qE '^nats +consumers +ok' out.doctor; then return; fi
		sleep 0.1
	done
}

given_no_service() {
	kill -TERM $service
	wait $service
}

# A sale of 10 lamps and 5 chairs, of which ann and bob have bought one lamp each.
given_sale() {
	cat >spring.yaml <<-'YAML'
		activity: spring
		title: Spring sale
		skus:
		  - {sku: lamp, total: 10, limit_per_user: 1, price: 4900}
		  - {sku: chair, total: 5, limit_per_user: 2, price: 9900}
	YAML
	bin/seckill activity apply -f spring.yaml --yes >$out
	bin/seckill activity open spring --yes >$out
	for buyer in ann bob; do
		bin/seckill order place spring lamp --user $buyer --yes >$out
	done
	bin/seckill audit --wait 30s >$out
}

# Messages that no release can read, and their dead letters.
given_dead_letters() {
	local server=${SECKILL_NATS_URL#nats://}
	exec 3<>"/dev/tcp/${server%:*}/${server#*:}"
	printf 'CONNECT {}\r\nPUB seckill.orders.0.spring 4\r\nnone\r\nPUB seckill.orders.0.spring 4\r\nnone\r\nPING\r\n' >&3
	for _ in $(seq 300); do
		if bin/seckill dlq list 2>$out | grep -q letter-2; then break; fi
		sleep 0.1
	done
	exec 3>&-
}

# The sale was closed more than a week ago: its gate has ended.
given_old_sale() {
	bin/seckill activity close spring --yes >$out
	psql -q "$SECKILL_POSTGRES_URL" -c "update seckill.activities set updated_at = now() - interval '9 days'"
	local server=${SECKILL_REDIS_URL#redis://}
	exec 3<>"/dev/tcp/${server%:*}/${server#*:}"
	for key in gate stock orders buyers keys pending; do printf 'DEL seckill:{spring/0}:%s\r\n' $key >&3; done
	exec 3>&-
}
