-- How long until the next order is overdue: the first entry of the index of those to pay.
select pay_before - clock_timestamp() from orders where status = 'pending_payment' order by pay_before limit 1
